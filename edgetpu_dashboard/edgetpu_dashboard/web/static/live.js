// The live part of the dashboard: pictures and numbers over a WebSocket, the mouse and the keyboard.
"use strict";

const edgetpuLive = (() => {
  const OVERVIEW = "overview"; // in place of the name of a node
  const RECONNECT = 1000; // ms
  const SILENCE = 5000; // ms without numbers, which come twice a second
  const CLICK = 5; // px that the mouse may move in a click
  let socket = null;
  let heard = 0; // when the stream was opened or has sent something, ms
  let wanted = { page: "", node: "", view: "" };
  let paused = false;
  let tabbed = false; // whether the focus was moved by the keyboard last
  let asks = false; // whether to ask for a picture although the page is paused, as another node was just chosen
  let drawn = null; // the element in which curves were drawn last: a paused page draws them once for each node
  const urls = new Map(); // object URLs of the pictures that are shown, by the id of the element

  const find = (id) => document.getElementById(id);

  // ---- the stream ----------------------------------------------------------------------------------------

  function show(shown) {
    // The address names the node, so that a page that is opened or loaded again shows it.
    const named = nodeOfAddress();
    if (!wanted.page && named && named !== shown.node) emitEvent("select_node", named);
    else if (named !== shown.node) history.replaceState(null, "", `#${shown.node}`);
    wanted = shown;
    endDrag(); // which began in another picture
    document.body.classList.toggle("overview", shown.view === OVERVIEW);
    asks = true;
    const live = find("live");
    if (live) {
      live.removeAttribute("src"); // of another view
      live.alt = `live picture: ${shown.view}`;
    }
    keep("live", null);
    connect();
  }

  function nodeOfAddress() {
    try {
      return decodeURIComponent(location.hash.slice(1));
    } catch {
      return location.hash; // which is no node: the page shows the overview
    }
  }

  window.addEventListener("hashchange", () => {
    const named = nodeOfAddress() || OVERVIEW;
    if (wanted.page && named !== wanted.node) emitEvent("select_node", named);
  });

  function open(node) {
    location.hash = node;
  }

  function connect() {
    if (socket) {
      socket.onclose = null;
      socket.close();
    }
    const query = new URLSearchParams(wanted).toString();
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const mine = new WebSocket(`${scheme}://${location.host}/live?${query}`);
    mine.binaryType = "arraybuffer";
    heard = performance.now();
    edgetpuCurves.forget(); // as a new stream begins with all points
    mine.onopen = () => {
      state("connected", "ok");
      if (!paused || asks) next();
    };
    mine.onmessage = (event) => {
      if (socket !== mine) return; // of the node that was shown before
      heard = performance.now();
      if (typeof event.data === "string") onNumbers(JSON.parse(event.data));
      else onPicture(event.data);
    };
    mine.onclose = () => {
      state("disconnected", "error");
      setTimeout(() => socket === mine && connect(), RECONNECT);
    };
    socket = mine;
  }

  // A network may fail without closing anything.
  setInterval(() => {
    if (!socket || socket.readyState !== WebSocket.OPEN) return;
    const silent = performance.now() - heard;
    if (silent > 3 * SILENCE) connect();
    else if (silent > SILENCE) state("no answer", "error");
  }, RECONNECT);

  function say(text) {
    if (socket && socket.readyState === WebSocket.OPEN) socket.send(text);
  }

  function next() {
    say("next");
  }

  function askAgain() {
    if (!paused || asks) requestAnimationFrame(next);
  }

  function onPicture(data) {
    const length = new Uint8Array(data, 0, 1)[0];
    const name = new TextDecoder().decode(new Uint8Array(data, 1, length));
    const image = wanted.view === OVERVIEW ? tile(name)?.querySelector("img") : find("live");
    if (!image) { // the page is being drawn
      askAgain();
      return;
    }
    const url = URL.createObjectURL(new Blob([new Uint8Array(data, 1 + length)], { type: "image/jpeg" }));
    image.onload = () => {
      keep(image.id, url);
      image.dataset.count = Number(image.dataset.count || 0) + 1;
      image.dataset.view = name;
      asks = false;
      say("shown");
      askAgain();
    };
    image.onerror = () => { // a picture that cannot be decoded, for want of memory for example
      URL.revokeObjectURL(url);
      askAgain();
    };
    image.src = url;
  }

  // Stores the URL of the picture that an element shows, and frees the one before; null: none.
  function keep(id, url) {
    if (urls.has(id)) URL.revokeObjectURL(urls.get(id));
    if (url) urls.set(id, url);
    else urls.delete(id);
  }

  function state(text, level) {
    const element = find("connection");
    if (!element) return;
    element.textContent = text;
    element.className = `state ${level}`;
  }

  // ---- numbers -------------------------------------------------------------------------------------------

  function onNumbers(message) {
    state("connected", "ok");
    drawNodes(message.nodes);
    if (wanted.view === OVERVIEW) drawTiles(message.nodes);
    const node = message.nodes[message.node];
    const badge = find("state");
    if (badge && node) {
      badge.textContent = node.running ? "running" : "stopped";
      badge.className = `state ${node.running ? "ok" : ""}`;
      document.querySelector(".stage").dataset.runs = node.running;
      find("problem").textContent = node.running ? node.problem : "";
    }
    const curves = edgetpuCurves.whole(message.curves, message.time);
    const list = find("curves");
    if (paused && list === drawn) return;
    drawn = list;
    drawPace(node);
    edgetpuCurves.draw(curves);
    edgetpuCurves.drawFacts(message.facts);
  }

  function lists() {
    const list = find("nodes");
    if (list && !list.children.length) {
      list.innerHTML =
        '<div></div><details><summary>not running</summary><div></div></details>';
      list.querySelector("details").open = matchMedia("(min-width: 701px)").matches;
      list.firstChild.append(nodeButton(OVERVIEW));
    }
    return list && { running: list.firstChild, stopped: list.querySelector("details div") };
  }

  function nodeButton(name) {
    const button = document.createElement("button");
    button.id = `node_${name}`;
    button.innerHTML = '<span class="dot"></span><span class="name"></span><span class="rate"></span>';
    button.querySelector(".name").textContent = button.title = name; // which may be too long for its line
    button.onclick = () => open(name);
    return button;
  }

  function drawNodes(nodes) {
    const { running, stopped } = lists() || {};
    if (!running) return;
    const here = [find(`node_${OVERVIEW}`)], away = [];
    for (const [name, node] of Object.entries(nodes)) {
      const button = find(`node_${name}`) || nodeButton(name);
      (node.running ? here : away).push(button);
      mark(button, node.running ? node.level : "off");
      button.querySelector(".rate").textContent = pace(node);
      button.classList.toggle("off", !node.running);
    }
    for (const [list, buttons] of [[running, here], [stopped, away]]) {
      // Only if something has changed: a button that is moved while it is pressed gets no click.
      if (buttons.some((button, place) => list.children[place] !== button)) list.replaceChildren(...buttons);
      while (list.children.length > buttons.length) list.lastChild.remove();
    }
    for (const button of [...here, ...away]) {
      const chosen = button.id === `node_${wanted.node}`;
      button.classList.toggle("chosen", chosen);
      button.setAttribute("aria-current", chosen ? "page" : "false");
    }
  }

  // The dot of a node: its colour, and the same in words.
  function mark(element, level) {
    const dot = element.querySelector(".dot");
    dot.className = `dot ${level}`;
    dot.title = level;
    dot.setAttribute("role", "img");
    dot.setAttribute("aria-label", level);
  }

  function pace(node) {
    return node.running && node.rate ? `${node.rate.toFixed(node.rate < 9.95 ? 1 : 0)} Hz` : "";
  }

  // ---- the overview --------------------------------------------------------------------------------------

  function tile(name) {
    const list = find("tiles");
    if (!list) return null;
    let element = find(`tile_${name}`);
    if (!element) {
      element = document.createElement("button");
      element.id = `tile_${name}`;
      element.innerHTML =
        '<span class="picture"><img alt="" draggable="false"><span class="nothing">waiting for pictures</span></span>' +
        '<span class="caption"><span class="dot"></span><span class="name"></span><span class="rate"></span></span>';
      element.querySelector("img").id = `picture_${name}`;
      element.querySelector(".name").textContent = name;
      element.onclick = () => open(name);
      list.append(element);
    }
    return element;
  }

  function drawTiles(nodes) {
    find("tiles")?.classList.add("known"); // so that it says if there are none
    for (const [name, node] of Object.entries(nodes)) {
      if (!node.pictured) find(`tile_${name}`)?.remove();
      else {
        const element = tile(name);
        if (!element) return;
        mark(element, node.level);
        element.querySelector(".rate").textContent = pace(node);
      }
    }
  }

  function drawPace(node) {
    const element = find("numbers");
    if (!element) return;
    if (!node || !node.running || node.rate === undefined) {
      element.textContent = "";
      return;
    }
    const ms = (value) => (value === null ? "-" : `${value.toFixed(1)} ms`);
    const parts = [`${node.rate.toFixed(1)} Hz`];
    if (node.valid !== undefined || node.latency !== null) parts.push(`latency ${ms(node.latency)}`);
    parts.push(`dropped ${node.dropped}`, `failed ${node.failed}`);
    if (node.valid !== undefined) {
      const confidence = node.confidence === null ? "-" : node.confidence.toFixed(2);
      const found = node.word ? `: ${node.word}` : "";
      parts.push(`${node.valid ? "valid" : "not valid"}${found}, confidence ${confidence}`);
    }
    element.textContent = parts.join(" · ");
  }

  // ---- controls ------------------------------------------------------------------------------------------

  function pause() {
    paused = !paused;
    document.body.classList.toggle("paused", paused);
    const button = document.querySelector('[data-id="pause"]');
    button.setAttribute("aria-pressed", paused);
    button.querySelector("i").textContent = paused ? "play_arrow" : "pause";
    if (!paused) next();
  }

  function single() {
    if (!paused) pause();
    drawn = null;
    next();
  }

  function save() {
    if (!urls.has("live")) return;
    const link = document.createElement("a");
    const stamp = new Date().toISOString().replace(/[:.]/g, "-");
    link.href = urls.get("live");
    link.download = `${wanted.view.replace(" ", "_")}_${stamp}.jpg`;
    link.click();
  }

  function isTyping(event) {
    const tag = event.target.tagName;
    return tag === "INPUT" || tag === "TEXTAREA" || tag === "SELECT" || event.target.isContentEditable;
  }

  // Whether the space bar is for a control that was reached with the Tab key. After a click it pauses.
  function isPressing(event) {
    return tabbed && event.target.closest("button, summary, [role=button], [role=tab], [role=switch], [role=checkbox], [role=radio]");
  }

  // Keeps the key from pressing the button that was clicked last, and from scrolling the page.
  function claim(event) {
    event.preventDefault();
    event.stopPropagation();
  }

  // Capturing, as the buttons of the page handle the space bar themselves.
  document.addEventListener("keydown", (event) => {
    if (event.key === "Tab") tabbed = true;
    if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === " " && !isPressing(event)) {
      claim(event);
      if (!event.repeat) pause();
    } else if (event.repeat) return;
    else if (event.key.toLowerCase() === "s") save(); // caps lock may be on
    else if (event.key === "Escape") endDrag();
  }, true);
  document.addEventListener("keyup", (event) => {
    if (event.key === " " && !isTyping(event) && !isPressing(event)) claim(event);
  }, true);

  function share(event) {
    const area = find("live").getBoundingClientRect();
    const within = (value) => Math.min(Math.max(value, 0), 1);
    return [within((event.clientX - area.left) / area.width), within((event.clientY - area.top) / area.height)];
  }

  // ---- boxes and clicks in the picture ---------------------------------------------------------------------

  let start = null; // the event that a drag began with

  function endDrag() {
    start = null;
    if (find("box")) find("box").style.display = "none";
  }

  document.addEventListener("pointerdown", (event) => {
    tabbed = false;
    if (event.target.id !== "live" || event.button || !event.target.closest(".takes")) return;
    if (start) { // a second finger: the user does not draw a box
      endDrag();
      return;
    }
    start = event;
    event.target.setPointerCapture(event.pointerId);
  });
  document.addEventListener("pointermove", (event) => {
    if (!start || !find("live")) return;
    const box = find("box"), area = find("live").getBoundingClientRect();
    const [left, top] = share(start), [right, bottom] = share(event);
    box.style.display = "block";
    box.style.left = `${Math.min(left, right) * area.width}px`;
    box.style.top = `${Math.min(top, bottom) * area.height}px`;
    box.style.width = `${Math.abs(right - left) * area.width}px`;
    box.style.height = `${Math.abs(bottom - top) * area.height}px`;
  });
  document.addEventListener("pointerup", (event) => {
    if (!start || !find("live")) return;
    const moved = Math.hypot(event.clientX - start.clientX, event.clientY - start.clientY);
    const from = share(start), to = share(event);
    endDrag();
    if (moved <= CLICK) emitEvent("click_picture", ...to);
    else emitEvent("drag_picture", ...from, ...to);
  });
  document.addEventListener("pointercancel", endDrag);

  return { show, pause, single, save };
})();
