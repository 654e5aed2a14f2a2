// Makes page/vendor anew: one readable entry per library, bundled once. See README.md.
import { build } from "esbuild";
import { copyFile, readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

const [repository] = process.argv.slice(2);
if (!repository) throw new Error("usage: node vendor.mjs REPOSITORY");
const vendor = join(repository, "src/tavernkit/studio/page/vendor");
const require = createRequire(import.meta.url);

await build({
  entryPoints: ["preact.js", "codemirror.js"],
  outdir: vendor,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
});

const axe = dirname(require.resolve("axe-core"));
await copyFile(join(axe, "axe.min.js"), join(repository, "tests/browser/axe/axe.min.js"));
await copyFile(join(axe, "LICENSE"), join(repository, "tests/browser/axe/LICENSE"));
await copyFile(join(axe, "LICENSE-3RD-PARTY.txt"), join(repository, "tests/browser/axe/LICENSE-3RD-PARTY.txt"));

const licences = [];
for (const name of ["preact", "htm", "@codemirror/state", "@lezer/common", "style-mod", "crelt", "w3c-keyname", "@marijn/find-cluster-break"]) {
  licences.push(`${name}\n\n${(await readFile(join("node_modules", name, "LICENSE"), "utf8")).trim()}`);
}
await writeFile(join(vendor, "LICENSES.txt"), licences.join(`\n\n${"-".repeat(78)}\n\n`) + "\n");
