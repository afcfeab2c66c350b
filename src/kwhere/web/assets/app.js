import htmx from "htmx.org";
import { drawCharts } from "./charts.js";
import { wireCopyButtons, wireForms, wireMenus } from "./controls.js";
import { wireLive } from "./live.js";
import { showRelativeTimes, wireZoneSwitch } from "./times.js";

function bring(root) {
  drawCharts(root);
  wireCopyButtons(root);
  showRelativeTimes(root);
}

window.htmx = htmx;
htmx.onLoad((element) => bring(element));
document.addEventListener("DOMContentLoaded", () => {
  wireForms(document);
  wireMenus(document);
  wireZoneSwitch(document);
  wireLive(document);
});
