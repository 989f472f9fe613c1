/* The script of every page: theme, tables that sort and filter, values under the pointer, figures that open larger. */
(() => {
  "use strict";
  const all = (query, from = document) => [...from.querySelectorAll(query)];
  const make = (name, words = "", properties = {}) =>
    Object.assign(document.createElement(name), { textContent: words }, properties);

  // Theme: what the system has, until the switch is used; nothing is kept.
  const root = document.documentElement, theme = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const tell = () => { theme.setAttribute("aria-pressed", isDark()); theme.textContent = isDark() ? "Light" : "Dark";
    theme.setAttribute("aria-label", "Switch to the " + (isDark() ? "light" : "dark") + " theme"); };
  theme.hidden = false;
  theme.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; tell(); });
  system.addEventListener("change", tell);
  tell();

  // Parts that are folded: on paper all are open, and a link into one opens it.
  const folded = () => all("details:not([open])");
  addEventListener("beforeprint", () => folded().forEach((one) => { one.open = one.dataset.printed = true; }));
  addEventListener("afterprint", () => all("details[data-printed]").forEach((one) => { one.open = false; delete one.dataset.printed; }));
  const unfold = () => {
    const target = document.getElementById(location.hash.slice(1));
    for (let one = target; one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
    if (target?.closest("details")) target.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  unfold();

  // Tables: a button in each heading sorts by its column; numbers by data-v, else by what is written.
  const value = (row, place) => {
    const cell = row.cells[place], given = cell.dataset.v;
    const text = given ?? cell.textContent.trim(), number = text === "" ? NaN : Number(text);
    return { text, number };
  };
  const compare = (a, b) => {
    const known = [a, b].map((one) => !Number.isNaN(one.number));
    if (known[0] && known[1]) return a.number - b.number;
    return known[0] !== known[1] ? (known[0] ? -1 : 1) : a.text.localeCompare(b.text, undefined, { numeric: true });
  };
  const sort = (table, head, place) => {
    const up = head.getAttribute("aria-sort") !== "ascending", body = table.tBodies[0];
    for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const empty = (one) => one.text === "" || one.text === "–";
    const rows = [...body.rows].map((row) => ({ row, key: value(row, place) }));
    rows.sort((a, b) => empty(a.key) - empty(b.key) || (up ? 1 : -1) * compare(a.key, b.key));
    body.append(...rows.map((one) => one.row));
  };
  for (const table of all("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((head, place) => {
      const button = make("button", "", { type: "button" });
      button.append(...head.childNodes);
      head.append(button);
      head.setAttribute("aria-sort", head.getAttribute("aria-sort") ?? "none");
      button.addEventListener("click", () => sort(table, head, place));
    });
  }
  for (const table of all("table.filterable")) {
    const box = make("label", "Filter ", { className: "filter" }), count = make("span");
    const input = make("input", "", { type: "search", placeholder: "any words" });
    count.setAttribute("aria-live", "polite");
    box.append(input, count);
    table.closest(".scroll").before(box);
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean), rows = [...table.tBodies[0].rows];
      for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
      const shown = rows.filter((row) => !row.hidden).length;
      count.textContent = words.length ? shown + " of " + rows.length + " rows" : "";
    });
  }

  // Values: a mark says its own under the pointer; in a figure that has the focus, arrow keys walk from mark to mark.
  const tip = make("div", "", { className: "tip", hidden: true });
  tip.setAttribute("role", "status");
  document.body.append(tip);
  let marked = null;
  const hide = () => { tip.hidden = true; marked?.classList.remove("marked"); marked = null; };
  const place = () => {
    if (!marked) return;
    const at = marked.getBoundingClientRect(), size = tip.getBoundingClientRect(), top = at.top - size.height - 6;
    tip.style.left = Math.max(4, Math.min(innerWidth - size.width - 4, at.left + (at.width - size.width) / 2)) + "px";
    tip.style.top = (top > 4 ? top : at.bottom + 6) + "px";
  };
  const show = (mark) => {
    hide();
    marked = mark;
    mark.classList.add("marked");
    (mark.closest("dialog") ?? document.body).append(tip);
    tip.textContent = mark.dataset.tip;
    tip.hidden = false;
    place();
  };
  for (const title of all("figure svg title")) {
    const owner = title.parentElement, words = title.textContent;
    title.remove();
    owner.setAttribute("aria-label", words);
    if (owner.tagName !== "svg") owner.dataset.tip = words;
  }
  const walk = (event) => {
    const marks = all("[data-tip]", event.currentTarget), step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step || !marks.length) return;
    event.preventDefault();
    const at = marks.indexOf(marked);
    show(marks[at < 0 ? (step > 0 ? 0 : marks.length - 1) : (at + step + marks.length) % marks.length]);
  };
  const listen = (svg) => {
    if (!svg.querySelector("[data-tip]")) return;
    svg.setAttribute("tabindex", "0");
    svg.addEventListener("keydown", walk);
    svg.addEventListener("blur", hide);
  };
  all("figure svg").forEach(listen);
  document.addEventListener("pointerover", (event) => {
    const mark = event.target.closest?.("[data-tip]");
    if (mark) show(mark); else if (marked && !marked.closest("svg").matches(":focus")) hide();
  });
  document.addEventListener("scroll", place, { passive: true, capture: true });

  // Figures: a button opens a copy in a dialog; Escape, the button or a click beside it closes.
  const open = (figure) => {
    const dialog = make("dialog", "", { className: "larger-view" });
    const close = make("button", "Close", { type: "button", className: "close" });
    const copy = figure.querySelector(".drawn").cloneNode(true), words = figure.querySelector("figcaption");
    hide();
    dialog.append(close, copy, ...(words ? [make("p", words.textContent)] : []));
    close.addEventListener("click", () => dialog.close());
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    dialog.addEventListener("close", () => { hide(); document.body.append(tip); dialog.remove(); });
    document.body.append(dialog);
    all("svg", dialog).forEach(listen);
    dialog.setAttribute("aria-label", "Figure, larger");
    dialog.showModal();
  };
  for (const figure of all("figure")) {
    if (!figure.querySelector(".drawn")) continue;
    const button = make("button", "Larger", { type: "button", className: "larger" });
    button.addEventListener("click", () => open(figure));
    figure.append(button);
  }
})();
