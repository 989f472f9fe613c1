/* Figures with sliders. The page holds the values of all settings as JSON; this script draws panels, sliders and a sentence. */
(() => {
  "use strict";
  // The sentence about a setting, by the name of the figure; `value` has the values at the setting by the names of the curves.
  const sentences = {
    angles: (value) => {
      const names = { vanilla: "vanilla", mixup: "mixup", genlabel: "GenLabel" };
      const margin = (angle) => Math.min(Math.cos(Math.PI * angle), Math.sin(Math.PI * angle));
      const angles = Object.keys(names).map((name) => names[name] + " " + value[name].toFixed(4) + " \u03c0");
      const margins = Object.keys(names).map((name) => [names[name], margin(value[name]).toFixed(3)]).sort((a, b) => b[1] - a[1]);
      const order = margins.map(([name, size], i) => (i ? (size === margins[i - 1][1] ? " \u2248 " : " > ") : "") + name + " " + size);
      return "the angle of " + angles.join(", ") + "; the SVM's is 0.25 \u03c0. Margins: " +
        order.join("") + ", the SVM's is 0.707.";
    },
    coefficients: (value) => {
      const side = value.A < 1 / 3 ? "Below" : "Not below";
      return "A = " + value.A.toFixed(4) + " and B = " + value.B.toFixed(4) + ". " + side +
        " mixup's 1/3 and 1/6. In the limit of large \u03c3\u2081 A = " + value["limit A"].toFixed(4) + " and B = " +
        value["limit B"].toFixed(4) + ".";
    },
  };

  const maker = (space) => (tag, attributes = {}, ...inside) => {
    const made = document.createElementNS(space, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...inside);
    return made;
  };
  const html = maker("http://www.w3.org/1999/xhtml"), svg = maker("http://www.w3.org/2000/svg");
  const text = (x, y, words, place = "middle") => svg("text", { x, y, "text-anchor": place }, words);
  const line = (x1, y1, x2, y2, kind) => svg("path", { d: `M${x1} ${y1}L${x2} ${y2}`, class: kind });

  const drawMark = (mark, x, y) => {
    const shapes = { circle: `M${x - 6} ${y}a6 6 0 1 0 12 0a6 6 0 1 0 -12 0`, square: `M${x - 6} ${y - 6}h12v12h-12z`,
      cross: `M${x - 5} ${y - 5}l10 10m0 -10l-10 10` };
    const path = svg("path", { d: shapes[mark.shape], class: mark.kind + (mark.shape === "cross" ? "" : " filled") });
    return mark.text ? [path, text(x, y - 12, mark.text)] : [path];
  };

  const drawPanel = (panel) => {
    const [left, top, width, height] = panel.box, right = left + width, bottom = top + height;
    const across = (x) => left + (x - panel.x[0]) / (panel.x[1] - panel.x[0]) * width;
    const up = (y) => bottom - (y - panel.y[0]) / (panel.y[1] - panel.y[0]) * height;
    const parts = [svg("title", {}, panel.title)];
    for (const [x, words] of panel.x_ticks) parts.push(line(across(x), top, across(x), bottom, "grid"), text(across(x), bottom + 14, words));
    for (const [y, words] of panel.y_ticks) parts.push(line(left, up(y), right, up(y), "grid"), text(left - 6, up(y) + 4, words, "end"));
    parts.push(text(left + width / 2, bottom + 31, panel.x_label));
    if (panel.y_label) {
      const label = text(0, 0, panel.y_label);
      label.setAttribute("transform", `translate(13 ${top + height / 2}) rotate(-90)`);
      parts.push(label);
    }
    let x = left;
    for (const [words, kind] of panel.legend ?? []) {
      parts.push(line(x, 16, x + 18, 16, kind), text(x + 23, 20, words, "start"));
      x += 40 + 7 * words.length;
    }
    for (const level of panel.levels ?? []) {
      parts.push(line(left, up(level.y), right, up(level.y), level.kind));
      if (level.text) parts.push(text(right + 4, up(level.y) + 4, level.text, "start"));
    }
    const reach = 0.46 * height, turning = [];
    for (const turn of panel.turns ?? []) {
      const path = line(across(0) - reach, up(0), across(0) + reach, up(0), turn.kind);
      const rotate = (angle) => path.setAttribute("transform", `rotate(${(90 - 180 * angle).toFixed(2)} ${across(0)} ${up(0)})`);
      if (turn.name) path.dataset.turns = turn.name;
      turning.push((value) => rotate(turn.angle ?? value[turn.name]));
      parts.push(path);
    }
    for (const mark of panel.marks ?? []) parts.push(...drawMark(mark, across(mark.x), up(mark.y)));
    const curves = (panel.curves ?? []).map((curve) => {
      const path = svg("path", { class: curve.kind, "data-curve": curve.name });
      const dot = curve.along ? svg("circle", { r: 5, class: curve.kind + " filled", "data-dot": curve.name }) : null;
      parts.push(path, ...(dot ? [dot] : []));
      return (values, at) => {
        path.setAttribute("d", "M" + curve.x.map((one, i) => across(one).toFixed(1) + " " + up(values[i]).toFixed(1)).join("L"));
        dot?.setAttribute("cx", across(curve.x[at]));
        dot?.setAttribute("cy", up(values[at]));
      };
    });
    const picture = svg("svg", { viewBox: `0 0 ${panel.size.join(" ")}`, role: "img", style: `flex: ${panel.size[0]} 1 ${0.6 * panel.size[0]}px` }, ...parts);
    return { picture, curves, turning };
  };

  const start = (figure) => {
    const data = JSON.parse(figure.querySelector("script").textContent);
    const drawn = data.panels.map(drawPanel), sentence = html("p", { "aria-live": "polite" });
    const sliders = data.controls.map((one) => html("input", { type: "range", id: data.name + "-" + one.name, min: 0,
      max: one.texts.length - 1, value: one.start }));
    const outputs = sliders.map((one) => html("output", { for: one.id }));
    const draw = () => {
      const place = Object.fromEntries(data.controls.map((one, i) => [one.name, Number(sliders[i].value)])), value = {};
      const size = Object.fromEntries(data.controls.map((one) => [one.name, one.texts.length]));
      data.panels.forEach((panel, i) => (panel.curves ?? []).forEach((curve, k) => {
        const from = curve.over.reduce((sum, name) => sum * size[name] + place[name], 0) * curve.x.length;
        const values = curve.values.slice(from, from + curve.x.length).map((one) => one / data.units);
        const at = curve.along ? place[curve.along] * curve.step : 0;
        drawn[i].curves[k](values, at);
        value[curve.name] = values[at];
      }));
      drawn.forEach((panel) => panel.turning.forEach((turn) => turn(value)));
      const now = data.controls.map((one) => one.texts[place[one.name]]);
      now.forEach((words, i) => { sliders[i].setAttribute("aria-valuetext", words); outputs[i].textContent = words; });
      const setting = data.controls.map((one, i) => one.symbol + " = " + now[i]).join(", ");
      sentence.textContent = "At " + setting + ": " + sentences[data.name](value);
    };
    const rows = data.controls.map((one, i) => html("div", {}, html("label", { for: sliders[i].id },
      html("b", {}, one.symbol), " " + one.about), sliders[i], outputs[i]));
    figure.prepend(html("fieldset", {}, html("legend", {}, "Settings"), ...rows),
      html("div", { class: "panels" }, ...drawn.map((one) => one.picture)), sentence);
    for (const slider of sliders) slider.addEventListener("input", draw);
    draw();
  };
  document.querySelectorAll("figure.sliders").forEach(start);
})();
