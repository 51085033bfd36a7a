// The live part of the dashboard: pictures, numbers and curves over a WebSocket, the mouse and the keyboard.
"use strict";

const edgetpuLive = (() => {
  const RECONNECT = 1000; // ms
  const CLICK = 5; // px that the mouse may move in a click
  const WINDOW = 60; // s of a curve
  let socket = null;
  let wanted = { node: "", view: "" };
  let paused = false;
  let picture = null; // object URL of the picture that is shown
  let numbers = null; // the last message of numbers

  const find = (id) => document.getElementById(id);

  function show(node, view) {
    wanted = { node, view };
    const box = find("nothing");
    if (box) box.style.display = "";
    connect();
  }

  function connect() {
    if (socket) {
      socket.onclose = null;
      socket.close();
    }
    const query = new URLSearchParams(wanted).toString();
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const { view } = wanted;
    const mine = new WebSocket(`${scheme}://${location.host}/live?${query}`);
    mine.binaryType = "blob";
    mine.onopen = () => {
      state("connected", "ok");
      if (!paused) next();
    };
    mine.onmessage = (event) => {
      if (socket !== mine) return; // of the node that was shown before
      if (typeof event.data === "string") onNumbers(JSON.parse(event.data));
      else onPicture(event.data, view);
    };
    mine.onclose = () => {
      state("disconnected", "error");
      setTimeout(() => socket === mine && connect(), RECONNECT);
    };
    socket = mine;
  }

  function next() {
    if (socket && socket.readyState === WebSocket.OPEN) socket.send("next");
  }

  function onPicture(blob, view) {
    const image = find("live");
    const url = URL.createObjectURL(blob);
    image.onload = () => {
      if (picture) URL.revokeObjectURL(picture);
      picture = url;
      image.dataset.count = Number(image.dataset.count || 0) + 1;
      image.dataset.view = view;
      find("nothing").style.display = "none";
      if (!paused) requestAnimationFrame(next);
    };
    image.src = url;
  }

  function state(text, level) {
    const element = find("connection");
    if (!element) return;
    element.textContent = text;
    element.className = `state ${level}`;
  }

  // ---- numbers -------------------------------------------------------------------------------------------

  function onNumbers(message) {
    numbers = message;
    drawNodes(message.nodes);
    const node = message.nodes[message.node];
    const badge = find("state");
    if (badge && node) {
      badge.textContent = node.running ? "running" : "stopped";
      badge.className = `state ${node.running ? "ok" : ""}`;
    }
    if (paused) return;
    drawPace(node);
    drawCurves(message.curves);
  }

  function drawNodes(nodes) {
    const list = find("nodes");
    if (!list) return;
    for (const [name, node] of Object.entries(nodes)) {
      let button = find(`node_${name}`);
      if (!button) {
        button = document.createElement("button");
        button.id = `node_${name}`;
        button.innerHTML = '<span class="dot"></span><span class="name"></span><span class="rate"></span>';
        button.querySelector(".name").textContent = name;
        button.onclick = () => emitEvent("select_node", name);
        list.appendChild(button);
      }
      const level = node.running ? node.level : "off";
      button.querySelector(".dot").className = `dot ${level}`;
      button.querySelector(".rate").textContent = node.running && node.rate ? `${node.rate.toFixed(0)} Hz` : "";
      button.classList.toggle("chosen", name === wanted.node);
      button.classList.toggle("off", !node.running);
    }
    for (const button of [...list.children]) {
      if (!(button.id.slice(5) in nodes)) button.remove();
    }
  }

  function drawPace(node) {
    const element = find("numbers");
    if (!element) return;
    if (!node || node.rate === undefined) {
      element.textContent = "";
      return;
    }
    const ms = (value) => (value === null ? "-" : `${value.toFixed(1)} ms`);
    const confidence = node.confidence === null ? "-" : node.confidence.toFixed(2);
    element.textContent =
      `${node.rate.toFixed(1)} Hz · latency ${ms(node.latency)} · dropped ${node.dropped} · ` +
      `failed ${node.failed} · ${node.valid ? "valid" : "not valid"}, confidence ${confidence}`;
  }

  function drawCurves(curves) {
    const list = find("curves");
    if (!list) return;
    const ids = curves.map((curve) => `curve_${curve.field}`);
    for (const element of [...list.children]) if (!ids.includes(element.id)) element.remove();
    for (const curve of curves) {
      let element = find(`curve_${curve.field}`);
      if (!element) {
        element = document.createElement("div");
        element.id = `curve_${curve.field}`;
        element.className = "curve";
        element.innerHTML = '<div class="caption"><b></b> <span class="meaning"></span><span class="value"></span></div><canvas></canvas>';
        element.querySelector("b").textContent = curve.field;
        list.appendChild(element);
      }
      element.querySelector(".meaning").textContent = curve.meaning;
      element.querySelector(".value").textContent = inWords(curve);
      drawCurve(element.querySelector("canvas"), curve.points);
    }
  }

  function inWords(curve) {
    if (curve.value === null) return "no value";
    const digits = (value) => Number(value.toPrecision(4)).toString();
    const sigma = curve.sigma ? ` ± ${Number(curve.sigma.toPrecision(2))}` : "";
    return `${digits(curve.value)}${sigma} ${curve.unit}`;
  }

  function drawCurve(canvas, points) {
    const ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (canvas.width !== width * ratio) canvas.width = width * ratio;
    if (canvas.height !== height * ratio) canvas.height = height * ratio;
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const measured = points.filter((point) => point[1] !== null);
    let low = Math.min(...measured.map((point) => point[1] - point[2]));
    let high = Math.max(...measured.map((point) => point[1] + point[2]));
    if (!Number.isFinite(low)) [low, high] = [-1, 1];
    if (high - low < 1e-9) [low, high] = [low - 0.5, high + 0.5];
    const margin = 44, foot = 14;
    const x = (time) => margin + (1 + time / WINDOW) * (width - margin - 4);
    const y = (value) => 8 + (1 - (value - low) / (high - low)) * (height - foot - 14);
    context.font = "10px sans-serif";
    context.fillStyle = context.strokeStyle = "#7d8b99";
    context.lineWidth = 1;
    context.textAlign = "right";
    for (const value of [low, (low + high) / 2, high]) {
      context.fillText(Number(value.toPrecision(3)), margin - 5, y(value) + 3);
      context.globalAlpha = 0.25;
      context.beginPath();
      context.moveTo(margin, y(value));
      context.lineTo(width - 4, y(value));
      context.stroke();
      context.globalAlpha = 1;
    }
    context.textAlign = "center";
    for (const time of [-60, -40, -20, 0]) {
      context.fillText(time ? `${time} s` : "now", Math.min(Math.max(x(time), 12), width - 14), height - 2);
    }
    for (const run of runs(points)) {
      context.fillStyle = "rgba(77, 182, 255, 0.25)";
      context.beginPath();
      for (const [time, value, sigma] of run) context.lineTo(x(time), y(value + sigma));
      for (const [time, value, sigma] of [...run].reverse()) context.lineTo(x(time), y(value - sigma));
      context.fill();
      context.strokeStyle = "#4db6ff";
      context.lineWidth = 1.5;
      context.lineCap = "round"; // so that a single point is seen, too
      context.beginPath();
      context.moveTo(x(run[0][0]), y(run[0][1]));
      for (const [time, value] of run) context.lineTo(x(time), y(value));
      context.stroke();
    }
  }

  // Parts of a curve without a gap.
  function runs(points) {
    const found = [];
    let run = [];
    let last = null;
    for (const point of points) {
      if (point[1] === null || (last !== null && point[0] - last > 1)) {
        if (run.length) found.push(run);
        run = [];
      }
      if (point[1] !== null) run.push(point);
      last = point[0];
    }
    if (run.length) found.push(run);
    return found;
  }

  // ---- controls ------------------------------------------------------------------------------------------

  function pause() {
    paused = !paused;
    document.body.classList.toggle("paused", paused);
    const icon = document.querySelector('[data-id="pause"] i');
    if (icon) icon.textContent = paused ? "play_arrow" : "pause";
    if (!paused) next();
  }

  function single() {
    if (!paused) pause();
    next();
  }

  function save() {
    const image = find("live");
    if (!picture || !image) return;
    const link = document.createElement("a");
    const stamp = new Date().toISOString().replace(/[:.]/g, "-");
    link.href = picture;
    link.download = `${image.dataset.view.replace(" ", "_")}_${stamp}.jpg`;
    link.click();
  }

  function isTyping(event) {
    const tag = event.target.tagName;
    return tag === "INPUT" || tag === "TEXTAREA" || tag === "SELECT" || event.target.isContentEditable;
  }

  document.addEventListener("keydown", (event) => {
    if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (event.key === " ") {
      event.preventDefault(); // not the button that has the focus, and no scrolling
      pause();
    } else if (event.key === "s") save();
  });
  document.addEventListener("keyup", (event) => {
    if (event.key === " " && !isTyping(event)) event.preventDefault();
  });

  function share(event) {
    const area = find("live").getBoundingClientRect();
    const within = (value) => Math.min(Math.max(value, 0), 1);
    return [within((event.clientX - area.left) / area.width), within((event.clientY - area.top) / area.height)];
  }

  // The median colour around a point of the picture as it is shown: the camera may have moved on.
  function colorAt(column, row) {
    const image = find("live"), radius = 3, size = 2 * radius + 1;
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = size;
    const context = canvas.getContext("2d");
    const within = (share, length) => Math.min(Math.max(Math.floor(share * length) - radius, 0), length - size);
    const left = within(column, image.naturalWidth), top = within(row, image.naturalHeight);
    context.drawImage(image, left, top, size, size, 0, 0, size, size);
    const data = context.getImageData(0, 0, size, size).data;
    return [0, 1, 2].map((channel) => {
      const levels = [];
      for (let index = channel; index < data.length; index += 4) levels.push(data[index]);
      return levels.sort((one, other) => one - other)[Math.floor(levels.length / 2)];
    });
  }

  let start = null;
  document.addEventListener("pointerdown", (event) => {
    if (event.target.id !== "live" || event.button) return;
    start = event;
    event.target.setPointerCapture(event.pointerId);
  });
  document.addEventListener("pointermove", (event) => {
    if (!start) return;
    const box = find("box"), area = find("live").getBoundingClientRect();
    const [left, top] = share(start), [right, bottom] = share(event);
    box.style.display = "block";
    box.style.left = `${Math.min(left, right) * area.width}px`;
    box.style.top = `${Math.min(top, bottom) * area.height}px`;
    box.style.width = `${Math.abs(right - left) * area.width}px`;
    box.style.height = `${Math.abs(bottom - top) * area.height}px`;
  });
  document.addEventListener("pointerup", (event) => {
    if (!start) return;
    const moved = Math.hypot(event.clientX - start.clientX, event.clientY - start.clientY);
    const from = share(start), to = share(event);
    start = null;
    find("box").style.display = "none";
    if (moved <= CLICK) emitEvent("click_picture", ...to, ...colorAt(...to));
    else emitEvent("drag_picture", ...from, ...to);
  });
  document.addEventListener("pointercancel", () => {
    start = null;
    find("box").style.display = "none";
  });

  return { show, pause, single, save, numbers: () => numbers };
})();
