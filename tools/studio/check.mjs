// Format, lint and types of the page. `make check-page` runs it; `--fix` formats.
import { spawnSync } from "node:child_process";
import { join, resolve } from "node:path";

const [repository, fix] = process.argv.slice(2);
if (!repository) throw new Error("usage: node check.mjs REPOSITORY [--fix]");
const page = join(repository, "src/tavernkit/studio/page");
const texts = ["*.{js,css,html}", "views/*.js"].map((name) => join(page, name));

const steps = [
  ["prettier", fix ? "--write" : "--check", "--log-level=warn", "--print-width=120", ...texts],
  ["eslint", "--config", resolve("eslint.config.mjs"), page],
  ["tsc", "--project", join(repository, "tools/studio/tsconfig.json")],
];
let failed = false;
for (const [name, ...args] of steps) {
  // In the repository, because eslint looks at nothing outside of its working folder.
  const { status } = spawnSync(resolve("node_modules/.bin", name), args, { stdio: "inherit", cwd: repository });
  console.log(`${name}: ${status === 0 ? "fine" : "found something"}`);
  failed ||= status !== 0;
}
process.exit(failed ? 1 : 0);
