// The curves of a node's results over the last minute, with bands of one standard deviation.
"use strict";

const edgetpuCurves = (() => {
  const WINDOW = 60; // s of a curve

  function draw(curves) {
    const list = document.getElementById("curves");
    if (!list) return;
    const ids = curves.map((curve) => `curve_${curve.field}`);
    for (const element of [...list.children]) if (!ids.includes(element.id)) element.remove();
    for (const curve of curves) {
      let element = document.getElementById(`curve_${curve.field}`);
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

  return { draw };
})();
