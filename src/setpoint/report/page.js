// Shows the results of another threshold. Every count and metric was computed beforehand; the script
// looks them up and formats them as the page does.
(function () {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const low = data.low.map(Number);
  const high = data.high && data.high.map(Number);
  const at = data.at.map(Number);
  const certified = data.certified.map((interval) => interval.map(Number));
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

  const isCertified = (value) =>
    certified.some(([from, to]) => from <= value && (value < to || to === Infinity));

  // Three decimals, and more where three would hide a missed level.
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

  const rounded = (value, digits) => Math.floor(value * 10 ** digits + 0.5) / 10 ** digits;

  // Counts per 10,000 cases: parts add up, and a count above 0 is never written as 0.
  function perCases(tp, fp) {
    const part = (count) => rounded((10000 * count) / rows, data.digits);
    const least = 1 / 10 ** data.digits;
    const text = (value, count) =>
      count > 0 && value < least / 2 ? "<" + least.toFixed(data.digits) : fixed(value, data.digits);
    const alarms = part(tp + fp), real = part(tp), positives = part(data.P);
    return {
      "cases-alarms": text(alarms, tp + fp), "cases-tp": text(real, tp),
      "cases-fp": text(alarms - real, fp), "cases-fn": text(positives - real, data.P - tp),
    };
  }

  function money(amount) {
    const sign = amount <= -0.5 / 10 ** data.cents ? "−" : "";
    const space = data.currency.length === 1 ? "" : "\u00a0";
    return sign + data.currency + space + fixed(Math.abs(amount), data.cents);
  }

  // The cost per 10,000 cases, in rounded items that add up.
  function bill(tp, fp) {
    const [alarm, miss, caught] = data.costs, scale = 10000 / rows;
    const alarms = rounded(scale * alarm * (tp + fp), data.cents);
    const misses = rounded(scale * miss * (data.P - tp), data.cents);
    const catches = rounded(scale * caught * tp, data.cents);
    return { alarms, misses, catches, total: alarms + misses + catches };
  }

  function texts(step, typed) {
    const tp = data.tp[step], fp = data.fp[step];
    const fn = data.P - tp;
    const value = typed === undefined ? at[step] : typed;
    const here = threshold(value);
    const out = {
      certified: data.verdicts[isCertified(value) ? 1 : 0],
      tp: whole(tp), fp: whole(fp), fn: whole(fn), tn: whole(data.N - fp),
      met: data.met[step] ? (tp + fp ? "✓ met" : "✓ met: no alarms") : "✗ not met",
      ...perCases(tp, fp),
      summary: "At " + here + ": " + whole(tp) + " of " + whole(data.P) + " " + data.plural +
        " caught, " + (fp === 1 ? "1 false alarm" : whole(fp) + " false alarms") + "." + change(step),
    };
    for (const name in data.metrics) {
      out["metric-" + name] = metric(name, data.metrics[name][step]);
    }
    for (const name in data.texts) out["metric-" + name] = data.texts[name][step];
    if (data.costs) {
      const items = bill(tp, fp);
      items.saved = rounded((10000 / rows) * data.costs[1] * data.P, data.cents) - items.total;
      data.baselines.forEach((counts, i) => { items["gained" + i] = bill(...counts).total - items.total; });
      for (const name in items) out["money-" + name] = money(items[name]);
    }
    return out;
  }

  // A sentence about the change from the chosen threshold.
  function change(step) {
    if (step === data.chosen) return " This is the chosen threshold.";
    const describe = (difference, what, same) =>
      difference === 0 ? same : whole(Math.abs(difference)) + (difference > 0 ? " more " : " fewer ") + what;
    const tp = data.tp[step] - data.tp[data.chosen], fp = data.fp[step] - data.fp[data.chosen];
    return " Compared with the chosen threshold: " + describe(tp, "caught", "the same number caught") + ", " +
      describe(fp, "false alarms", "the same number of false alarms") + ".";
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
    for (const element of document.querySelectorAll("p.certified")) {
      element.className = "certified " + (isCertified(value) ? "yes" : "no");
    }
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
    if (Number.isNaN(typed)) { snapped.textContent = "Enter a number."; return; }
    const step = lastUpTo(low, typed);
    const next = step + 1;
    if (!high || typed < high[step] || next === low.length) {
      snapped.textContent = "";
      show(step, typed);
      return;
    }
    const nearer = Math.abs(at[next] - typed) < Math.abs(typed - at[step]) ? next : step;
    snapped.textContent = "Exact counts are stored for some thresholds only; " + threshold(at[nearer]) +
      " is the nearest.";
    show(nearer);
  }

  slider.addEventListener("input", () => {
    snapped.textContent = "";
    show(data.stops[slider.valueAsNumber]);
  });
  box.addEventListener("change", typedIn);
  box.addEventListener("keydown", (event) => {
    // An arrow moves to the next distinct score: a step of 1 would be the whole scale of a probability.
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

  // Paper shows the chosen threshold, whatever the slider shows, and unfolds what is folded.
  let before = null, folded = [];
  const toPaper = () => {
    if (before !== null) return;
    before = now;
    show(data.chosen);
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const element of folded) element.open = true;
  };
  const fromPaper = () => {
    if (before === null) return;
    show(before);
    before = null;
    for (const element of folded) element.open = false;
  };
  window.addEventListener("beforeprint", toPaper);
  window.addEventListener("afterprint", fromPaper);
  window.matchMedia("print").addEventListener("change", (e) => (e.matches ? toPaper() : fromPaper()));

  show(data.chosen);
})();
