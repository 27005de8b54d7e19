import { cpSync, readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig, type DefaultTheme } from "vitepress";
import { addressOf, anchorOf, filesPath, pageOf } from "../links.ts";
import { navigation, type Entry } from "../navigation.ts";
import { readable } from "./markdown.ts";
import { mendedTheme } from "./mended-theme.ts";

// `make site` builds the pages of `docs/`, which stay as GitHub shows them: what GitHub and VitePress write differently
// is translated here and in markdown.ts. BASE: the path below which the site is served; OUT: the directory it is written to.
const root = fileURLToPath(new URL("../..", import.meta.url));
const base = process.env["BASE"] ?? "/";
const linked = new Set<string>();
const vitepress = dirname(createRequire(import.meta.url).resolve("vitepress/package.json"));

export default defineConfig({
  title: "Berth",
  description: "Keeps local AI models running as declared, and serves them through one OpenAI-style API",
  lang: "en",
  base,
  srcDir: "..",
  srcExclude: ["!(docs)/**/*", "README.md"],
  outDir: process.env["OUT"] ?? "dist",
  cacheDir: "../.cache/site",
  rewrites: (file) => pageOf(file),
  metaChunk: true,
  head: [["link", { rel: "icon", href: "data:," }]],
  markdown: {
    anchor: { slugify: anchorOf },
    // Others have colours of too little contrast.
    theme: { light: "github-light-high-contrast", dark: "github-dark-high-contrast" },
    config: (md) =>
      readable(md, (file, href) => {
        const address = addressOf(relative(root, file), href);
        if (!address.startsWith(filesPath)) return { href: address };
        linked.add(address.slice(filesPath.length));
        return { href: base + address.slice(1), target: "_self" };
      }),
  },
  themeConfig: {
    search: { provider: "local" },
    nav: [
      { text: "Quick start", link: "/quick/gpu-box" },
      { text: "Concepts", link: "/concepts" },
      { text: "Reference", link: "/reference" },
      { text: "Comparison", link: "/comparison" },
    ],
    sidebar: navigation.map(({ text, entries }) => ({ text, items: entries.map(itemOf) })),
    outline: { level: [2, 3] },
    externalLinkIcon: true,
  },
  vite: {
    plugins: [mendedTheme],
    // The font of tokens.css comes with VitePress.
    resolve: {
      alias: {
        "@fontsource-variable/inter/files/inter-latin-wght-normal.woff2": join(
          vitepress,
          "dist/client/theme-default/fonts/inter-roman-latin.woff2",
        ),
      },
    },
    build: { chunkSizeWarningLimit: 2000 },
  },
  buildEnd: ({ outDir }) => {
    for (const file of linked) cpSync(join(root, file), join(outDir, filesPath, file));
  },
});

function itemOf(entry: Entry): DefaultTheme.SidebarItem {
  if ("file" in entry) return { text: entry.text, link: linkOf(entry.file) };
  const names = readdirSync(join(root, entry.folder)).filter((name) => name.endsWith(".md") && name !== "README.md");
  return {
    text: entry.text,
    link: linkOf(`${entry.folder}/README.md`),
    collapsed: true,
    items: names.toSorted().map((name) => {
      const [, title = name] = /^# (.*)$/m.exec(readFileSync(join(root, entry.folder, name), "utf8")) ?? [];
      return { text: title.replaceAll("`", ""), link: linkOf(`${entry.folder}/${name}`) };
    }),
  };
}

function linkOf(file: string): string {
  return `/${pageOf(file).replace(/(index)?\.md$/, "")}`;
}
