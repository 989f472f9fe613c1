/* Figures that follow their sliders. The values are in the page, computed when it was built; here they get places and words. */
(() => {
  "use strict";
  // What is said of a setting, by the name of the figure; `value` has the values at the setting by the names of the curves.
  const words = {
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

  const start = (figure) => {
    const data = JSON.parse(figure.querySelector("script").textContent);
    const sliders = [...figure.querySelectorAll("input")], said = figure.querySelector(".said");
    const pictures = [...figure.querySelectorAll(".panels svg")].slice(-data.panels.length); // those with curves are the last
    const size = Object.fromEntries(data.controls.map((one) => [one.name, one.said.length]));

    const row = (curve, place) => {
      const from = curve.over.reduce((sum, name) => sum * size[name] + place[name], 0) * curve.x.length;
      return curve.values.slice(from, from + curve.x.length);
    };
    const draw = () => {
      const place = Object.fromEntries(data.controls.map((one, i) => [one.name, Number(sliders[i].value)])), value = {};
      data.panels.forEach((panel, i) => {
        const picture = pictures[i], up = (one) => (panel.bottom - panel.unit * one).toFixed(1);
        for (const curve of panel.curves) {
          const values = row(curve, place), at = curve.along ? place[curve.along] * curve.step : 0;
          const dot = picture.querySelector(`[data-dot="${curve.name}"]`);
          picture.querySelector(`[data-curve="${curve.name}"]`)
            .setAttribute("d", "M" + curve.x.map((x, k) => x + " " + up(values[k])).join("L"));
          dot?.setAttribute("cx", curve.x[at]);
          dot?.setAttribute("cy", up(values[at]));
          value[curve.name] = values[at] / data.units;
        }
      });
      for (const line of figure.querySelectorAll("[data-turns]")) {
        const centre = line.getAttribute("transform").split(" ").slice(1).join(" ");
        line.setAttribute("transform", `rotate(${(90 - 180 * value[line.dataset.turns]).toFixed(2)} ${centre}`);
      }
      data.controls.forEach((one, i) => {
        const now = one.said[place[one.name]];
        sliders[i].setAttribute("aria-valuetext", now);
        sliders[i].nextElementSibling.textContent = now;
      });
      const setting = data.controls.map((one) => one.shown + " = " + one.said[place[one.name]]).join(", ");
      said.textContent = "At " + setting + ": " + words[data.name](value);
    };
    for (const slider of sliders) slider.addEventListener("input", draw);
    figure.querySelector("fieldset").hidden = false;
    draw();
  };
  document.querySelectorAll("figure.explore").forEach(start);
})();
