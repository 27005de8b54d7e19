import { createHash } from "node:crypto";
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import type { Metafile } from "esbuild";

// Builds the pages of `web/` into `web/dist`, which the gateway serves and the package ships. Does nothing while the
// sources are those of the last build; says what each page weighs.
const root = fileURLToPath(new URL("..", import.meta.url));
const web = join(root, "web");
const out = join(web, "dist");
const pages = ["dashboard", "chat"] as const;
const contentTypes = /\.(?:js|css)$/;
/** Packed already: gzip makes it no smaller. */
const fonts = /\.woff2$/;

async function main(): Promise<void> {
  const sources = await digestOfSources();
  const stamp = join(out, ".built-from");
  if ((await readFile(stamp, "utf8").catch(() => "")) === sources) return;
  await rm(out, { recursive: true, force: true });
  const packages = new Set<string>();
  for (const page of pages) {
    const sizes = await buildPage(page, packages);
    process.stdout.write(`built the ${page} page: ${sizes}\n`);
  }
  // A release names them, with their licences.
  await writeFile(join(out, ".packages"), `${[...packages].toSorted().join("\n")}\n`);
  await writeFile(stamp, sources);
}

/** Adds the names of the packages that are bundled into the page. */
async function buildPage(page: (typeof pages)[number], packages: Set<string>): Promise<string> {
  const { build } = await import("esbuild");
  const { outputFiles, metafile } = await build({
    entryPoints: [
      { in: join(web, page, "main.tsx"), out: page },
      { in: join(web, page, `${page}.css`), out: page },
    ],
    outdir: out,
    write: false,
    metafile: true,
    bundle: true,
    minify: true,
    // Gives each module that a page imports later a file of its own.
    splitting: true,
    loader: { ".woff2": "file" },
    format: "esm",
    target: ["es2023", "chrome120", "firefox121", "safari17"],
    jsx: "automatic",
    jsxImportSource: "preact",
    // Names of the addresses that browsers may keep for ever.
    entryNames: "[name]-[hash]",
    chunkNames: "[name]-[hash]",
    assetNames: "[name]-[hash]",
    legalComments: "inline",
    logLevel: "warning",
  });
  for (const path of Object.keys(metafile.inputs)) {
    const name = /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1];
    if (name !== undefined) packages.add(name);
  }
  const assets = join(out, page, "assets");
  await mkdir(assets, { recursive: true });
  let html = await readFile(join(web, page, "index.html"), "utf8");
  let packed = 0;
  for (const { path, contents } of outputFiles) {
    const name = basename(path);
    await writeFile(join(assets, name), contents);
    if (fonts.test(name)) continue;
    const gzip = gzipSync(contents, { level: 9 });
    packed += gzip.length;
    await writeFile(join(assets, `${name}.gz`), gzip);
    if (name.startsWith(`${page}-`)) html = html.replace(`{{${page}${contentTypes.exec(name)?.[0] ?? ""}}}`, name);
  }
  html = html.replace(/( *<script[^>]* src="([^"]*\/))([^"/]*)".*\n/, (line, _start, at: string, entry: string) => {
    // The modules that the script imports at once are asked for beside it, and not after it.
    const shared = importsOf(metafile, entry).map((name) => `    <link rel="modulepreload" href="${at}${name}" />\n`);
    return shared.join("") + line;
  });
  if (html.includes("{{")) throw new Error(`${page}/index.html names a file that the build does not write`);
  // Its licence goes with the font.
  await copyFile(join(root, "node_modules/@fontsource-variable/inter/LICENSE"), join(assets, "inter-license.txt"));
  await writeFile(join(out, page, "index.html"), html);
  return `${Math.round(packed / 1024)} KiB gzip`;
}

/** The names of the files that a file of the build imports, and theirs, without those that come later. */
function importsOf({ outputs }: Pick<Metafile, "outputs">, name: string, found = new Set<string>()): readonly string[] {
  const [, output] = Object.entries(outputs).find(([path]) => basename(path) === name) ?? [];
  for (const { path, kind } of output?.imports ?? []) {
    const imported = basename(path);
    if (kind !== "import-statement" || found.has(imported)) continue;
    found.add(imported);
    importsOf({ outputs }, imported, found);
  }
  return [...found];
}

/** The digest of every file that the pages are built from: their own, what they take from `src`, and the versions of packages. */
async function digestOfSources(): Promise<string> {
  const hash = createHash("sha256");
  const files = [
    join(root, "hack/web.ts"),
    join(root, "package-lock.json"),
    ...(await filesIn(web)),
    ...(await filesIn(join(root, "src/api"))),
  ];
  for (const file of files)
    hash
      .update(file.slice(root.length))
      .update("\0")
      .update(await readFile(file))
      .update("\0");
  return hash.digest("hex");
}

async function filesIn(directory: string): Promise<readonly string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((file) => !file.startsWith(`${out}/`))
    .toSorted();
}

await main();
