// Runs before the first paint: says that script is there, so that a chart's table does not flash.
document.documentElement.classList.add("js");
