import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, posix, resolve } from "node:path";
import { argv } from "node:process";

/**
 * Writes `test/fixtures/reader-COMMIT.js`: the code by which the version of that commit reads state files, as one file.
 * `test/store/mixed-versions.test.ts` has it read what this version writes. By hand, when a version has been published:
 *
 *   node hack/freeze-reader.ts a80e358
 *
 * The module names below are those of a80e358; a later version has others.
 */
const modules = [
  "store/published.js",
  "store/demand.js",
  "store/requests.js",
  "store/lock.js",
  "store/hardware.js",
  "runtimes/records.js",
  "gateway/admission/availability.js",
];

const imported = /^import (?:(\*) as (\w+)|\{([^}]*)\}|(\w+)) from "([^"]+)";\n/gmu;
const exported = /^export (?:async )?(?:function\*?|const|class) (\w+)/gmu;

/** Each module as a function of its imports, in the order of dependencies. */
function bundle(root: string): string {
  const packages = new Map<string, Set<string>>();
  const names = new Map<string, string>();
  const parts: string[] = [];
  const add = (file: string): string => {
    const known = names.get(file);
    if (known !== undefined) return known;
    const name = `m_${file.replace(/\.js$/u, "").replaceAll(/\W/gu, "_")}`;
    names.set(file, name);
    const body = readFileSync(join(root, file), "utf8").replaceAll(
      imported,
      (_, star: string | undefined, whole: string, list: string | undefined, usual: string, from: string) => {
        if (from.startsWith("."))
          return `const {${(list ?? "").replaceAll(" as ", ": ")}} = ${add(posix.join(posix.dirname(file), from))};\n`;
        const statement = list === undefined ? (star === undefined ? usual : `* as ${whole}`) : "";
        const wanted = packages.get(from) ?? new Set();
        packages.set(from, wanted);
        for (const each of statement === "" ? (list ?? "").split(",") : [statement]) wanted.add(each.trim());
        return "";
      },
    );
    const found = [...body.matchAll(exported)].map(([, each]) => each ?? "");
    const plain = body.replaceAll(/^export \{\};\n/gmu, "").replaceAll(/^export /gmu, "");
    parts.push(`const ${name} = (() => {\n${plain}return { ${found.join(", ")} };\n})();\n`);
    return name;
  };
  const entries = modules.map((file) => add(file));
  const head = [...packages].map(
    ([from, list]) => `import { ${[...list].join(", ")} } from ${JSON.stringify(from)};\n`,
  );
  const tail = entries.map((name) => `export const ${name.split("_").at(-1) ?? ""} = ${name};\n`);
  return [...head, ...parts, ...tail].join("");
}

const commit = argv[2] ?? "";
const clone = resolve(import.meta.dirname, "..");
const work = mkdtempSync(join(tmpdir(), "freeze-"));
try {
  execFileSync("sh", ["-c", 'git archive "$0" src package.json tsconfig.json | tar -x -C "$1"', commit, work], {
    cwd: clone,
  });
  symlinkSync(join(clone, "node_modules"), join(work, "node_modules"));
  const files = modules.map((file) => join(work, "src", file.replace(/js$/u, "ts")));
  const compilerOptions = { noEmit: false, outDir: "out", rootDir: "src", removeComments: true };
  const compiled = { ...compilerOptions, rewriteRelativeImportExtensions: true };
  const config = { extends: "./tsconfig.json", compilerOptions: compiled, include: [], files };
  writeFileSync(join(work, "freeze.json"), JSON.stringify(config));
  execFileSync(join(clone, "node_modules/.bin/tsc"), ["-p", join(work, "freeze.json")], { stdio: "inherit" });
  const text = `// Written by hack/freeze-reader.ts from the sources of ${commit}; never edited.\n${bundle(join(work, "out"))}`;
  writeFileSync(join(clone, `test/fixtures/reader-${commit}.js`), text);
} finally {
  rmSync(work, { recursive: true });
}
