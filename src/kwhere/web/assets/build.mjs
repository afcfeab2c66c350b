// Builds the pages' assets into ../static/dist: one script, one boot script, one stylesheet, and a manifest of hashed names.
import { createHash } from "node:crypto";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const dist = join(here, "..", "static", "dist");

const result = await build({
  entryPoints: { app: join(here, "app.js"), boot: join(here, "boot.js"), style: join(here, "style.css") },
  bundle: true,
  minify: true,
  write: false,
  outdir: dist,
  target: ["es2021", "chrome100", "firefox100", "safari16"],
  format: "iife",
  legalComments: "none",
  logLevel: "warning",
});

await rm(dist, { recursive: true, force: true });
await mkdir(dist, { recursive: true });
const manifest = {};
for (const file of result.outputFiles) {
  const name = file.path.slice(dist.length + 1);
  const hash = createHash("sha256").update(file.contents).digest("hex").slice(0, 10);
  const [stem, ext] = name.split(".");
  manifest[name] = `${stem}-${hash}.${ext}`;
  await writeFile(join(dist, manifest[name]), file.contents);
}
const licences = [];
for (const name of ["htmx.org", "uplot"]) {
  const text = await readFile(join(here, "../../../../node_modules", name, "LICENSE"), "utf8");
  licences.push(`${name}\n${"=".repeat(name.length)}\n\n${text.trim()}\n`);
}
await writeFile(join(dist, "LICENSES.txt"), licences.join("\n\n"));
await writeFile(join(dist, "manifest.json"), JSON.stringify(manifest, null, 1) + "\n");
