// Charts: each <figure data-chart> holds its data as JSON and its table; with script the table's place shows a uPlot chart.
import uPlot from "uplot";
import { shownZone } from "./times.js";

const drawn = new Set();
function cssValue(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function colourOf(series) {
  return cssValue(series.colour === "ink" ? "ink-soft" : series.colour);
}

function significant(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 0.001) return "<0.001";
  const decimals = Math.max(0, Math.min(3, 2 - Math.floor(Math.log10(size))));
  return value.toFixed(decimals);
}

// A 45° hatch over a light tint: the idle part of a component.
function hatch(colour, ratio) {
  const size = Math.round(6 * ratio);
  const tile = document.createElement("canvas");
  tile.width = tile.height = size;
  const pen = tile.getContext("2d");
  pen.fillStyle = cssValue("hatch-gap");
  pen.fillRect(0, 0, size, size);
  pen.globalAlpha = 0.26;
  pen.fillStyle = colour;
  pen.fillRect(0, 0, size, size);
  pen.globalAlpha = 0.8;
  pen.strokeStyle = colour;
  pen.lineWidth = 1.2 * ratio;
  pen.beginPath();
  for (const shift of [-size, 0, size]) {
    pen.moveTo(shift, size);
    pen.lineTo(shift + size, 0);
  }
  pen.stroke();
  return pen.createPattern(tile, "repeat");
}

// In `stack+lines` the dashed series are lines over the stack; in `stack` every series is a layer.
function isLayer(chart, series) {
  return chart.kind === "stack" || (chart.kind === "stack+lines" && !series.dashed);
}

// Running sums from the first series up; a time without any value stays a gap.
function stacked(columns) {
  const sums = columns.length ? new Array(columns[0].length).fill(0) : [];
  return columns.map((column) => column.map((value, at) => {
    if (columns.every((other) => other[at] === null)) return null;
    sums[at] += value || 0;
    return sums[at];
  }));
}

function axisValues(plot, ticks) {
  return ticks.map((tick) => Number(tick.toPrecision(6)).toString());
}

const TIME_FORMATS = [
  [86400 * 28, "{YYYY}-{MM}", null, null, null, null, null, null, 1],
  [86400, "{MMM} {D}", null, null, null, null, null, null, 1],
  [60, "{HH}:{mm}", "\n{MMM} {D}", null, "\n{MMM} {D}", null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", "\n{MMM} {D}", null, "\n{MMM} {D}", null, null, null, 1],
];

function seriesOptions(chart) {
  const ratio = window.devicePixelRatio || 1;
  return chart.series.map((series) => {
    const area = isLayer(chart, series);
    const colour = colourOf(series);
    const step = uPlot.paths.stepped({ align: -1 });
    return {
      label: series.label,
      stroke: colour,
      width: area ? (series.hatched ? 0.75 : 1) : series.dashed ? 1.25 : 1.75,
      dash: series.dashed ? [5, 4] : undefined,
      fill: area ? (series.hatched ? hatch(colour, ratio) : colour) : undefined,
      paths: chart.stepped ? step : undefined,
      points: { show: chart.times.length < 2 },
      spanGaps: false,
    };
  });
}

function options(chart, place, width) {
  const axis = { stroke: cssValue("ink-soft"), font: `11px ${cssValue("sans")}`, grid: { stroke: cssValue("grid"), width: 1 }, ticks: { show: false } };
  const series = seriesOptions(chart);
  const layers = chart.series.filter((entry) => isLayer(chart, entry)).length;
  const bands = series.slice(0, Math.max(0, layers - 1)).map((entry, at) => ({ series: [at + 2, at + 1] }));
  return {
    width,
    height: place.clientHeight,
    padding: [10, 20, 0, 0],
    legend: { show: false },
    cursor: {
      y: false,
      points: { show: chart.kind === "line", size: 6 },
      drag: { x: true, y: false, setScale: true },
      sync: { key: chart.group || "page", setSeries: false, scales: ["x", null] },
    },
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), shownZone()),
    scales: {
      x: { time: true, range: () => [chart.start, chart.end] },
      y: { range: (plot, low, high) => [0, Math.max(high || 0, (chart.floor || 0) / chart.divisor) * 1.08 || 1] },
    },
    axes: [
      { ...axis, values: TIME_FORMATS, grid: { show: false }, space: 70, size: 34 },
      { ...axis, values: axisValues, size: 46, space: 34, gap: 6 },
    ],
    series: [{}, ...series],
    bands,
  };
}

function pointAt(chart, index) {
  return chart.series.map((series) => (index === null || index === undefined ? null : series.values[index]));
}

// The legend is in the page already, with the newest values; the cursor writes its own into it.
function wireLegend(figure, chart) {
  const cells = [...figure.querySelectorAll(".legend [data-value]")];
  const stamp = figure.closest(".panel").querySelector("[data-cursor-time]");
  const rest = cells.map((cell) => cell.textContent);
  const restStamp = stamp ? stamp.textContent : "";
  return (plot) => {
    const index = plot.cursor.idx;
    const values = pointAt(chart, index);
    const idle = index === null || index === undefined;
    cells.forEach((cell, at) => {
      const text = idle ? rest[at] : cell.dataset.value === "sum"
        ? significant(values.reduce((sum, value, order) => sum + (isLayer(chart, chart.series[order]) ? value || 0 : 0), 0) / chart.divisor)
        : significant(values[Number(cell.dataset.value)] === null ? null : values[Number(cell.dataset.value)] / chart.divisor);
      if (cell.textContent !== text) cell.textContent = text;
    });
    if (stamp) {
      stamp.textContent = idle ? restStamp : new Intl.DateTimeFormat("en-GB", {
        timeZone: shownZone(), hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23",
      }).format(new Date(chart.times[index] * 1000));
    }
  };
}

function draw(figure) {
  const source = figure.querySelector("script[type='application/json']");
  const place = figure.querySelector(".chart-place");
  const canvas = figure.querySelector(".chart-canvas");
  if (!source || !canvas) return null;
  const chart = JSON.parse(source.textContent);
  if (!chart.times.length || !chart.series.length) return null;
  const columns = chart.series.map((series) => series.values.map((value) => (value === null ? null : value / chart.divisor)));
  const layers = columns.filter((column, at) => isLayer(chart, chart.series[at]));
  const data = [...stacked(layers), ...columns.slice(layers.length)];
  const settings = options(chart, place, place.clientWidth);
  settings.hooks = { setCursor: [wireLegend(figure, chart)] };
  canvas.replaceChildren();
  return new uPlot(settings, [chart.times, ...data], canvas);
}

function remember(figure) {
  const entry = { figure, plot: draw(figure) };
  drawn.add(entry);
  const toggle = figure.closest(".panel, body").querySelector(`[data-table-for="${figure.id}"]`);
  if (toggle) {
    toggle.addEventListener("click", () => {
      const table = figure.classList.toggle("as-table");
      toggle.textContent = table ? "chart" : "table";
      toggle.setAttribute("aria-pressed", String(table));
    });
  }
}

export function drawCharts(root) {
  for (const entry of drawn) {
    if (!entry.figure.isConnected) {
      if (entry.plot) entry.plot.destroy();
      drawn.delete(entry);
    }
  }
  const figures = root.matches && root.matches("figure[data-chart]") ? [root] : root.querySelectorAll("figure[data-chart]");
  const known = new Set([...drawn].map((entry) => entry.figure));
  for (const figure of figures) if (!known.has(figure)) remember(figure);
}

function redrawAll() {
  for (const entry of drawn) {
    if (entry.plot) entry.plot.destroy();
    entry.plot = draw(entry.figure);
  }
}

let pending = 0;
window.addEventListener("resize", () => {
  clearTimeout(pending);
  pending = setTimeout(() => {
    for (const { figure, plot } of drawn) {
      const place = figure.querySelector(".chart-place");
      if (plot && place.clientWidth !== plot.width) plot.setSize({ width: place.clientWidth, height: place.clientHeight });
    }
  }, 80);
});
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
document.addEventListener("kwhere:zone", redrawAll);
