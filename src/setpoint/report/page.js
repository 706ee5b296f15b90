// Shows what another threshold does. Every count and metric was computed beforehand; here they are
// looked up, and written as the page's own numbers are.
(function () {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const low = data.low.map(Number);
  const high = data.high && data.high.map(Number);
  const at = data.at.map(Number);
  const rows = data.P + data.N;
  const slider = document.getElementById("slider");
  const box = document.getElementById("box");
  const snapped = document.getElementById("snapped");
  let now = data.chosen;

  const whole = (n) => n.toLocaleString("en-US", { maximumFractionDigits: 0 });
  const fixed = (n, digits) =>
    n.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const minus = (text) => text.replace("-", "−");

  function threshold(value) {
    if (!isFinite(value)) return value > 0 ? "∞" : "−∞";
    return minus(String(Number(value.toPrecision(6))));
  }

  // Three digits, and more where three would hide that a level is missed.
  function metric(name, value) {
    if (value === null) return "–";
    const asked = data.constraints[name];
    let digits = 3;
    if (asked) {
      const keeps = (v) => asked[0] * (asked[1] - v) <= 1e-9;
      while (digits < 9 && keeps(Number(value.toFixed(digits))) !== keeps(value)) digits += 1;
    }
    return value.toFixed(digits);
  }

  function perCases(count) {
    const value = (10000 * count) / rows;
    if (value >= 10 || value === 0) return whole(value);
    return value >= 0.05 ? value.toFixed(1) : "<0.1";
  }

  function money(amount) {
    const digits = Math.abs(amount) >= 100 || amount === 0 ? 0 : 2;
    return (amount < 0 ? "−" : "") + data.currency + (data.currency.length === 1 ? "" : "\u00a0") + fixed(Math.abs(amount), digits);
  }

  function cost(tp, fp) {
    const [alarm, miss, caught] = data.costs;
    return alarm * (tp + fp) + miss * (data.P - tp) + caught * tp;
  }

  function texts(step, typed) {
    const tp = data.tp[step], fp = data.fp[step];
    const fn = data.P - tp;
    const here = threshold(typed === undefined ? at[step] : typed);
    const out = {
      tp: whole(tp), fp: whole(fp), fn: whole(fn), tn: whole(data.N - fp),
      met: data.met[step] ? "✓ met" : "✗ not met",
      "cases-alarms": perCases(tp + fp), "cases-tp": perCases(tp),
      "cases-fp": perCases(fp), "cases-fn": perCases(fn),
      summary: "At " + here + ": " + whole(tp) + " of " + whole(data.P) + " " + data.many +
        " caught, " + (fp === 1 ? "1 false alarm" : whole(fp) + " false alarms") + "." + change(step),
    };
    for (const name in data.metrics) {
      out["metric-" + name] = metric(name, data.metrics[name][step]);
    }
    if (data.costs) {
      const [alarm, miss, caught] = data.costs, scale = 10000 / rows, total = cost(tp, fp);
      out["money-alarms"] = money(scale * alarm * (tp + fp));
      out["money-misses"] = money(scale * miss * fn);
      out["money-catches"] = money(scale * caught * tp);
      out["money-total"] = money(scale * total);
      out["money-saved"] = money(scale * (miss * data.P - total));
      if (data.baseline) out["money-gained"] = money(scale * (cost(...data.baseline) - total));
    }
    return out;
  }

  // What changes against the chosen threshold, in words.
  function change(step) {
    if (step === data.chosen) return " This is the chosen threshold.";
    const say = (difference, what) =>
      difference === 0 ? "as many " + what
        : whole(Math.abs(difference)) + (difference > 0 ? " more " : " fewer ") + what;
    const tp = data.tp[step] - data.tp[data.chosen], fp = data.fp[step] - data.fp[data.chosen];
    return " Against the chosen one: " + say(tp, "caught") + ", " + say(fp, "false alarms") + ".";
  }

  function place(frame, x, y) {
    const [left, right, bottom, top, x0, x1, y0, y1] = frame;
    const part = (v, a, b) => Math.min(Math.max((v - a) / (b - a), 0), 1);
    return [left + part(x, x0, x1) * (right - left), bottom - part(y, y0, y1) * (bottom - top)];
  }

  function show(step, typed) {
    now = step;
    const out = texts(step, typed);
    for (const element of document.querySelectorAll("[data-out]")) {
      const text = out[element.dataset.out];
      if (text !== undefined && element.textContent !== text) element.textContent = text;
    }
    const value = typed === undefined ? at[step] : typed;
    box.value = isFinite(value) ? value : "";
    slider.value = nearestStop(step);
    slider.setAttribute("aria-valuetext", "threshold " + threshold(value));
    const [x, y] = place(data.frames.curve, data.metrics.recall[step], data.metrics.precision[step]);
    document.getElementById("curve-here").setAttribute("transform", "translate(" + x + " " + y + ")");
    const [cut] = place(data.frames.scores, value, 0);
    document.getElementById("scores-here").setAttribute("transform", "translate(" + cut + " 0)");
  }

  // The last index whose value is not above the one sought; the values rise.
  function lastUpTo(values, sought) {
    let first = 0, last = values.length - 1;
    while (first < last) {
      const middle = Math.ceil((first + last) / 2);
      if (values[middle] <= sought) first = middle; else last = middle - 1;
    }
    return first;
  }

  function nearestStop(step) {
    const stop = lastUpTo(data.stops, step);
    const next = data.stops[stop + 1];
    return next !== undefined && next - step < step - data.stops[stop] ? stop + 1 : stop;
  }

  function typedIn() {
    const typed = box.valueAsNumber;
    if (Number.isNaN(typed)) { snapped.textContent = "That is no number."; return; }
    const step = lastUpTo(low, typed);
    const next = step + 1;
    if (!high || typed < high[step] || next === low.length) {
      snapped.textContent = "";
      show(step, typed);
      return;
    }
    const nearer = Math.abs(at[next] - typed) < Math.abs(typed - at[step]) ? next : step;
    snapped.textContent = "Exact counts are kept for some thresholds; " + threshold(at[nearer]) +
      " is the nearest.";
    show(nearer);
  }

  slider.addEventListener("input", () => {
    snapped.textContent = "";
    show(data.stops[slider.valueAsNumber]);
  });
  box.addEventListener("change", typedIn);
  box.addEventListener("keydown", (event) => {
    // One arrow, one decision changed: a step of 1 would be the whole scale of a probability.
    const move = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (move) {
      event.preventDefault();
      snapped.textContent = "";
      show(Math.min(Math.max(now + move, 0), low.length - 1));
    }
    if (event.key === "Enter") { event.preventDefault(); typedIn(); }
  });
  document.getElementById("reset").addEventListener("click", () => {
    snapped.textContent = "";
    show(data.chosen);
  });

  // Paper shows the chosen threshold, whatever was tried on the screen.
  let before = null;
  const toPaper = () => { if (before === null) { before = now; show(data.chosen); } };
  const fromPaper = () => { if (before !== null) { show(before); before = null; } };
  window.addEventListener("beforeprint", toPaper);
  window.addEventListener("afterprint", fromPaper);
  window.matchMedia("print").addEventListener("change", (e) => (e.matches ? toPaper() : fromPaper()));

  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const isDark = (root.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
    root.dataset.theme = isDark ? "light" : "dark";
  });

  // A table that is too wide for the screen can be scrolled with the keyboard.
  function reachable() {
    for (const element of document.querySelectorAll(".scroll")) {
      if (element.scrollWidth > element.clientWidth) element.tabIndex = 0;
      else element.removeAttribute("tabindex");
    }
  }
  window.addEventListener("resize", reachable);

  document.documentElement.classList.add("script");
  show(data.chosen);
  reachable();
})();
