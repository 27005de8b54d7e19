import { posix } from "node:path";

/** The page of the site, by its path from the site's root, that a Markdown file of the repository becomes. */
export function pageOf(file: string): string {
  const page = file.startsWith("docs/") ? file.slice("docs/".length) : `project/${file.toLowerCase()}`;
  return page.replace(/(^|\/)README\.md$/, "$1index.md");
}

/** The path on the site below which files of the repository stand that are no pages, each by its path in the repository. */
export const filesPath = "/files/";

/** The address on the site, from its root, of a link that `file` writes for readers of the repository. */
export function addressOf(file: string, href: string): string {
  const [path = "", anchor] = href.split("#");
  if (/^[a-z]+:/i.test(path) || path === "") return href;
  const target = posix.join(posix.dirname(file), path).replace(/\/$/, "/README.md");
  const tail = anchor === undefined ? "" : `#${anchor}`;
  if (target === "README.md") return `/${tail}`;
  return target.endsWith(".md") ? `/${pageOf(target)}${tail}` : `${filesPath}${target}`;
}

/** The anchor that GitHub gives a heading, so that one link serves readers there and on the site. */
export function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
    .replaceAll(/\s/g, "-");
}
