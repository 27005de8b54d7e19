import type { MarkdownRenderer } from "vitepress";

type Tokens = ReturnType<MarkdownRenderer["parse"]>;

/** The attributes on the site of a link; `file`: the absolute path of the file that writes `href`. */
type LinkTranslation = (file: string, href: string) => Readonly<Record<string, string>>;

/** Teaches the renderer GitHub's relative links and pictures for both looks, and makes tables fit a phone. */
export function readable(md: MarkdownRenderer, translate: LinkTranslation): void {
  md.core.ruler.push("berth", ({ tokens, env }) => {
    for (const token of tokens) if (token.type === "html_block") token.content = withBothLooks(token.content);
    labelCells(tokens);
    // The search's index is made without the path, and has no links.
    if (env.realPath === undefined) return;
    for (const token of tokens.flatMap(({ children }) => children ?? [])) {
      if (token.type !== "link_open") continue;
      const attributes = translate(env.realPath, token.attrGet("href") ?? "");
      for (const [name, value] of Object.entries(attributes)) token.attrSet(name, value);
    }
  });
}

/** Replaces a `<picture>` by an image for each look: the site's look may be another than the system's. */
function withBothLooks(html: string): string {
  return html.replaceAll(
    /<picture>\s*<source[^>]* srcset="([^"]+)"[^>]*>\s*<img src="([^"]+)"([^>]*)>\s*<\/picture>/g,
    (_, dark: string, light: string, rest: string) =>
      [
        `<img class="light-only" loading="lazy" src="./${light}"${rest}>`,
        `<img class="dark-only" loading="lazy" src="./${dark}"${rest}>`,
      ].join("\n"),
  );
}

/**
 * Gives each cell the title of its column, which stands before it where a phone shows the cells below each other. The
 * roles stay when the style makes blocks of them.
 */
function labelCells(tokens: Tokens): void {
  const roles: Record<string, string> = { table: "table", tr: "row", th: "columnheader", td: "cell" };
  let titles: string[] = [];
  let column = 0;
  for (const [index, token] of tokens.entries()) {
    const role = token.nesting === 1 ? roles[token.tag] : undefined;
    if (role === undefined) continue;
    token.attrSet("role", role);
    const { content = "" } = tokens[index + 1] ?? {};
    if (token.tag === "table") titles = [];
    else if (token.tag === "tr") column = 0;
    else if (token.tag === "th") titles.push(content.replaceAll("`", ""));
    else {
      const title = titles[column] ?? "";
      if (title !== "") token.attrSet("data-label", title);
      column += 1;
    }
  }
}
