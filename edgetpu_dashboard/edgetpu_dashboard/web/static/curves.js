// The curves of a node's numbers over the last minute, with bands of one standard deviation, and its facts.
"use strict";

const edgetpuCurves = (() => {
  const WINDOW = 60; // s of a curve
  let known = new Map(); // points by number, by the id of the curve

  function forget() {
    known = new Map();
  }

  // Adds the earlier points to curves: a message has only those that are new or have changed.
  function whole(curves, now) {
    const before = known;
    forget();
    return curves.map((curve) => {
      const points = known.get(curve.id) || (!curve.complete && before.get(curve.id)) || new Map();
      known.set(curve.id, points);
      for (const [number, ...point] of curve.points) points.set(number, point);
      for (const [number, [time]] of points) if (time < now - WINDOW) points.delete(number);
      return { ...curve, points: [...points.values()].map(([time, ...rest]) => [time - now, ...rest]) };
    });
  }

  function draw(curves) {
    const list = document.getElementById("curves");
    if (!list) return;
    const wanted = new Set(curves.map((curve) => curve.id));
    const there = new Map([...list.children].map((element) => [element.dataset.curve, element]));
    for (const [id, element] of there) if (!wanted.has(id)) element.remove();
    for (const [number, curve] of curves.entries()) {
      let element = there.get(curve.id);
      if (!element) {
        element = document.createElement("div");
        element.dataset.curve = curve.id;
        element.id = `curve_${curve.id.replace(/\W+/g, "_")}`; // perhaps not unique
        element.className = "curve";
        element.innerHTML = '<div class="caption"><b></b> <span class="meaning"></span><span class="value"></span></div><canvas></canvas>';
        element.querySelector("b").textContent = curve.field;
      }
      if (list.children[number] !== element) list.insertBefore(element, list.children[number] || null);
      const meaning = element.querySelector(".meaning");
      meaning.textContent = meaning.title = curve.meaning;
      element.querySelector(".value").textContent = inWords(curve);
      drawCurve(element.querySelector("canvas"), curve);
    }
  }

  // The values of diagnostics, a list for each entry.
  function drawFacts(entries) {
    const list = document.getElementById("facts");
    if (!list) return;
    list.replaceChildren(...Object.entries(entries).map(([entry, facts]) => {
      const element = document.createElement("section");
      element.innerHTML = '<div class="name"></div><dl class="facts"></dl>';
      element.querySelector(".name").textContent = entry;
      for (const [name, value] of Object.entries(facts)) {
        for (const [kind, text] of [["dt", name], ["dd", value || "none"]]) {
          const part = document.createElement(kind);
          part.textContent = text;
          element.querySelector("dl").append(part);
        }
      }
      return element;
    }));
  }

  function inWords(curve) {
    if (curve.value === null) return "no value";
    if (curve.words.length) return curve.words[curve.value];
    const digits = (value) => Number(value.toPrecision(4)).toString();
    const sigma = curve.sigma ? ` ± ${Number(curve.sigma.toPrecision(2))}` : "";
    return `${digits(curve.value)}${sigma} ${curve.unit}`;
  }

  function drawCurve(canvas, curve) {
    const points = curve.points, words = curve.words;
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
    if (words.length) [low, high] = [-0.3, words.length - 0.3];
    if (!Number.isFinite(low)) [low, high] = [-1, 1];
    if (high - low < 1e-9) [low, high] = [low - 0.5, high + 0.5];
    const margin = words.length ? 4 : 44, foot = 14;
    const x = (time) => margin + (1 + time / WINDOW) * (width - margin - 4);
    const y = (value) => 8 + (1 - (value - low) / (high - low)) * (height - foot - 14);
    context.font = "10px sans-serif";
    context.fillStyle = context.strokeStyle = "#7d8b99";
    context.lineWidth = 1;
    context.textAlign = "right";
    for (const value of words.length ? words.keys() : [low, (low + high) / 2, high]) {
      if (words.length) {
        context.textAlign = "left";
        context.fillText(words[value], margin + 2, y(value) - 3);
      } else context.fillText(label(value, high - low), margin - 5, y(value) + 3);
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
    const pixel = WINDOW / (width - margin - 4); // s
    for (const found of runs(points, curve.gap)) {
      const run = found.length > 1 ? found : widened(found[0], pixel);
      context.fillStyle = "rgba(77, 182, 255, 0.25)";
      context.beginPath();
      for (const [time, value, sigma] of run) context.lineTo(x(time), y(value + sigma));
      for (const [time, value, sigma] of [...run].reverse()) context.lineTo(x(time), y(value - sigma));
      context.fill();
      context.strokeStyle = "#4db6ff";
      context.lineWidth = 1.5;
      context.beginPath();
      context.moveTo(x(run[0][0]), y(run[0][1]));
      let before = run[0][1];
      for (const [time, value] of run) {
        if (words.length) context.lineTo(x(time), y(before)); // a step: there is nothing between words
        context.lineTo(x(time), y(value));
        before = value;
      }
      context.stroke();
    }
  }

  // The label of a value on an axis, in steps of a hundredth to a thousandth of the range, so that the middle of
  // -0.7 to 0.7 is 0.
  function label(value, range) {
    const exponent = Math.floor(Math.log10(range)) - 2;
    const step = 10 ** exponent;
    return Number((Math.round(value / step) * step).toFixed(Math.min(Math.max(0, -exponent), 100))).toString();
  }

  // A single point as a short line, because a canvas does not draw a line without a length.
  function widened([time, ...rest], width) {
    return [[time - width, ...rest], [time + width, ...rest]];
  }

  // Parts of a curve without a gap.
  function runs(points, gap) {
    const found = [];
    let run = [];
    let last = null;
    for (const point of points) {
      if (point[1] === null || (last !== null && point[0] - last > gap)) {
        if (run.length) found.push(run);
        run = [];
      }
      if (point[1] !== null) run.push(point);
      last = point[0];
    }
    if (run.length) found.push(run);
    return found;
  }

  return { draw, drawFacts, forget, label, whole };
})();
