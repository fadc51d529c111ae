"use strict";
(function () {
  const $ = (id) => document.getElementById(id);
  const root = document.documentElement;
  root.classList.add("js");

  // ---- overview: one metric at a time, second lines, sorting ----
  const measure = $("measure");
  function showMeasure() {
    for (const box of document.querySelectorAll(".measure")) box.classList.toggle("on", box.id === measure.value);
  }
  if (measure) {
    measure.addEventListener("change", showMeasure);
    showMeasure();
    $("second").addEventListener("change", (event) => {
      $("overview").className = "second-" + event.target.value;
    });
  }

  function sortBy(button) {
    const th = button.closest("th");
    const table = th.closest("table");
    const place = [...th.parentNode.children].indexOf(th);
    const first = place === 0 ? "ascending" : button.querySelector(".dir[title^=lower]") ? "ascending" : "descending";
    const now = th.getAttribute("aria-sort");
    const order = now === "ascending" ? "descending" : now === "descending" ? "ascending" : first;
    for (const other of th.parentNode.children) other.removeAttribute("aria-sort");
    th.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const rows = [...table.tBodies[0].rows].map((row, number) => {
      const cell = row.cells[place];
      const value = place === 0 ? cell.textContent : parseFloat(cell.dataset.v);
      return { row, number, value, missing: place !== 0 && Number.isNaN(value) };
    });
    rows.sort((a, b) => {
      if (a.missing || b.missing) return a.missing - b.missing || a.number - b.number;
      const way = place === 0 ? a.value.localeCompare(b.value) : a.value < b.value ? -1 : a.value > b.value ? 1 : 0;
      return sign * way || a.number - b.number;
    });
    table.tBodies[0].append(...rows.map((one) => one.row));
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("table.sortable thead button");
    if (button) sortBy(button);
  });

  // ---- benchmarks: open what is asked for, everything when printing ----
  function openTarget() {
    const target = location.hash && $(location.hash.slice(1));
    if (target && target.tagName === "DETAILS") target.open = true;
  }
  addEventListener("hashchange", openTarget);
  openTarget();
  if ($("go")) {
    $("go").addEventListener("change", (event) => {
      const target = $(event.target.value);
      if (!target) return;
      target.open = true;
      target.scrollIntoView();
      target.querySelector("summary").focus();
    });
    $("open-all").addEventListener("click", (event) => {
      const every = [...document.querySelectorAll(".bench")];
      const open = !every.every((one) => one.open);
      for (const one of every) one.open = open;
      event.target.textContent = open ? "Close all" : "Open all";
    });
  }
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const one of opened) one.open = true;
  });
  addEventListener("afterprint", () => {
    for (const one of opened) one.open = false;
  });

  // ---- heatmaps: one cell is in the tab order, arrows move ----
  for (const table of document.querySelectorAll(".heat")) {
    const out = $("readout-" + table.id.split("-")[1]);
    const rows = [...table.tBodies[0].rows].map((row) => [...row.cells].slice(1));
    if (!rows.length || !rows[0].length) continue;
    let at = [0, 0];
    rows[0][0].tabIndex = 0;
    const tell = (cell) => { if (cell && cell.title) out.textContent = cell.title; };
    const go = (i, j) => {
      i = Math.max(0, Math.min(rows.length - 1, i));
      j = Math.max(0, Math.min(rows[i].length - 1, j));
      rows[at[0]][at[1]].removeAttribute("tabindex");
      at = [i, j];
      rows[i][j].tabIndex = 0;
      rows[i][j].focus();
    };
    table.addEventListener("mouseover", (event) => tell(event.target.closest("tbody td")));
    table.addEventListener("focusin", (event) => tell(event.target.closest("tbody td")));
    table.addEventListener("click", (event) => {
      const cell = event.target.closest("tbody td");
      if (cell) go(cell.parentNode.sectionRowIndex, cell.cellIndex - 1);
    });
    table.addEventListener("keydown", (event) => {
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      const edge = { Home: 0, End: rows[0].length - 1 }[event.key];
      if (step) go(at[0] + step[0], at[1] + step[1]);
      else if (edge !== undefined) go(at[0], edge);
      else return;
      event.preventDefault();
    });
  }

  // ---- answers ----
  const list = $("s-list");
  if (!list) return;
  const ROW = 64, SHORT = 700;
  const pad = $("s-pad"), detail = $("s-detail"), query = $("s-query"), taskBox = $("s-task"), show = $("s-show");
  let data = null, shown = [], at = -1, words = [];

  const plain = (text) => text.toLowerCase().normalize("NFD").replace(/[\u0300-\u036f]/g, "");
  function make(tag, className, text) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined && text !== null) element.textContent = text;
    return element;
  }
  function number(value) {
    if (value === null || value === undefined) return "–";
    if (typeof value === "string") return value;
    return Number.isInteger(value) ? String(value) : String(parseFloat(value.toPrecision(4)));
  }
  function load() {
    if (data) return true;
    data = JSON.parse($("samples-data").textContent);
    $("samples-data").textContent = "";
    select();
    return true;
  }
  function index(doc) {
    if (doc.p === undefined) {
      const parts = [doc.q[0], doc.r ? doc.r[0] : ""].concat(Object.values(doc.g));
      for (const answer of doc.a) {
        parts.push(answer.x || "");
        for (const verdict of answer.j || []) parts.push(verdict.x || "");
      }
      doc.p = plain(parts.join("\n"));
    }
    return doc.p;
  }
  function differs(doc) {
    return doc.a.some((one) => one.f === doc.a[0].f && one.s.some((value, place) => value !== doc.a[0].s[place]));
  }
  function select() {
    words = plain(query.value).split(/\s+/).filter(Boolean);
    const task = taskBox.value === "" ? null : Number(taskBox.value);
    shown = data.docs.filter((doc) =>
      (task === null || doc.t === task) &&
      (show.value !== "differ" || differs(doc)) &&
      (show.value !== "gap" || doc.a.some((one) => one.s.includes(null))) &&
      words.every((word) => index(doc).includes(word)));
    $("s-count").textContent = shown.length + " of " + data.docs.length + " documents";
    pad.style.height = shown.length * ROW + "px";
    list.scrollTop = 0;
    choose(shown.length ? 0 : -1);
  }
  function draw() {
    const from = Math.max(0, Math.floor(list.scrollTop / ROW) - 5);
    const to = Math.min(shown.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + 5);
    const rows = [];
    for (let place = from; place < to; place += 1) {
      const doc = shown[place];
      const row = make("div", "row");
      row.id = "s-row-" + place;
      row.setAttribute("role", "option");
      row.setAttribute("aria-selected", String(place === at));
      row.setAttribute("aria-setsize", String(shown.length));
      row.setAttribute("aria-posinset", String(place + 1));
      row.style.top = place * ROW + "px";
      row.dataset.place = String(place);
      row.append(make("b", "", data.tasks[doc.t].name + " · " + doc.i));
      const text = make("span", "", doc.q[0].slice(0, 240));
      text.dir = "auto";
      row.append(text);
      rows.push(row);
    }
    pad.replaceChildren(...rows);
    if (at >= 0) list.setAttribute("aria-activedescendant", "s-row-" + at);
    else list.removeAttribute("aria-activedescendant");
  }
  function choose(place) {
    at = place;
    if (at >= 0) {
      if (at * ROW < list.scrollTop) list.scrollTop = at * ROW;
      const bottom = (at + 1) * ROW - list.clientHeight;
      if (bottom > list.scrollTop) list.scrollTop = bottom;
    }
    draw();
    drawDetail();
  }
  // Marks where the words stand; only where folding case and accents keeps every place in the text.
  function marked(element, text) {
    const folded = plain(text);
    if (!words.length || folded.length !== text.length) { element.textContent = text; return; }
    let rest = 0;
    while (rest < text.length) {
      let next = -1, length = 0;
      for (const word of words) {
        const place = folded.indexOf(word, rest);
        if (place >= 0 && (next < 0 || place < next)) { next = place; length = word.length; }
      }
      if (next < 0) break;
      element.append(text.slice(rest, next), make("mark", "", text.slice(next, next + length)));
      rest = next + length;
    }
    element.append(text.slice(rest));
  }
  function block(parent, text, full) {
    const box = make("p", "text");
    box.dir = "auto";
    parent.append(box);
    if (text === null) { box.append(make("em", "", "no answer")); return; }
    if (text === "") { box.append(make("em", "", "empty")); return; }
    const long = text.length > SHORT + 100;
    const fill = (part) => { box.replaceChildren(); marked(box, part); };
    fill(long ? text.slice(0, SHORT) + "…" : text);
    const line = make("p");
    if (long) {
      const button = make("button", "more", "show all");
      button.type = "button";
      button.setAttribute("aria-expanded", "false");
      button.addEventListener("click", () => {
        const open = button.getAttribute("aria-expanded") === "false";
        button.setAttribute("aria-expanded", String(open));
        button.textContent = open ? "show less" : "show all";
        fill(open ? text : text.slice(0, SHORT) + "…");
      });
      line.append(button);
    }
    if (full) line.append(make("small", "", "cut here: the first " + data.maxText + " of " + full + " characters"));
    if (line.childNodes.length) parent.append(line);
  }
  function drawAnswer(doc, answer) {
    const task = data.tasks[doc.t];
    const card = make("section", "answer");
    const model = data.models[answer.m];
    const head = make("h5", "", data.names[model] || model);
    head.title = model;
    if (answer.f !== "none") head.append(" ", make("small", "", "[" + answer.f + "]"));
    card.append(head);
    if (answer.k) card.append(make("small", "", "the first of " + answer.k + " answers"));
    if (!answer.c) block(card, answer.x, answer.l);
    else {
      const choices = make("ol", "choices");
      let best = 0;
      answer.c.forEach((choice, place) => { if (choice[1] > answer.c[best][1]) best = place; });
      answer.c.forEach((choice, place) => {
        const item = make("li", place === best ? "chosen" : "", choice[0] + " ");
        if (doc.r && choice[0] === doc.r[0]) item.append(make("span", "", "✓ "));
        item.append(make("small", "", "log-likelihood " + number(choice[1])));
        choices.append(item);
      });
      card.append(choices);
    }
    const scores = make("ul", "scores");
    task.metrics.forEach((metric, place) => {
      const value = answer.s[place];
      // What tells how a score came about is worth room only where something is odd.
      if (place >= task.metrics.length - task.helpers && (value === null || value === (metric.endsWith("_coverage") ? 1 : 0))) return;
      scores.append(make("li", value === null ? "gone" : "", metric + " " + number(value)));
    });
    card.append(scores);
    for (const verdict of answer.j || []) {
      const box = make("div", "verdict");
      const said = verdict.s === null ? "no score" + (verdict.r ? " (" + verdict.r + ")" : "") : "score " + number(verdict.s);
      box.append(make("b", "", verdict.j + ": " + said));
      if (verdict.x !== null) block(box, verdict.x, verdict.l);
      card.append(box);
    }
    return card;
  }
  function drawDetail() {
    detail.replaceChildren();
    detail.scrollTop = 0;
    if (at < 0) { detail.append(make("p", "", "No document fits.")); return; }
    const doc = shown[at];
    const about = Object.entries(doc.g).map(([key, value]) => " · " + key + ": " + value).join("");
    detail.append(make("p", "legend", data.tasks[doc.t].name + " · document " + doc.i + about));
    detail.append(make("h4", "", "Question"));
    block(detail, doc.q[0], doc.q[1]);
    if (doc.r) {
      detail.append(make("h4", "", "Reference"));
      block(detail, doc.r[0], doc.r[1]);
    }
    detail.append(make("h4", "", doc.a.length + (doc.a.length === 1 ? " answer" : " answers")));
    const grid = make("div", "answers");
    for (const answer of doc.a) grid.append(drawAnswer(doc, answer));
    detail.append(grid);
  }

  let timer = 0;
  query.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(() => load() && select(), 150); });
  taskBox.addEventListener("change", () => load() && select());
  show.addEventListener("change", () => load() && select());
  let waiting = false;
  list.addEventListener("scroll", () => {
    if (waiting || !data) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw(); });
  });
  addEventListener("resize", () => { if (data) draw(); });
  list.addEventListener("click", (event) => {
    const row = event.target.closest(".row");
    if (row) choose(Number(row.dataset.place));
  });
  list.addEventListener("keydown", (event) => {
    if (!data) return;
    const page = Math.max(1, Math.floor(list.clientHeight / ROW) - 1);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: shown.length - 1 }[event.key];
    if (event.key === "Enter") { detail.focus(); event.preventDefault(); return; }
    if (to === undefined || !shown.length) return;
    choose(Math.max(0, Math.min(shown.length - 1, to)));
    event.preventDefault();
  });
  // The answers are read when they come near, so that opening the page does not wait for them.
  const near = new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting)) { near.disconnect(); load(); }
  }, { rootMargin: "400px" });
  near.observe($("samples"));
  addEventListener("beforeprint", load);
})();
