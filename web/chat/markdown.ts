import DOMPurify from "dompurify";
import { Marked } from "marked";

const marked = new Marked({ gfm: true, breaks: true });

/** The blocks of a Markdown text: all but the last stay the same while it grows. */
export function blocksOf(text: string): readonly string[] {
  const tokens = marked.lexer(text);
  // A link defined elsewhere in the text must be found in its block.
  if (Object.keys(tokens.links).length > 0) return [text];
  return tokens.filter(({ type }) => type !== "space").map(({ raw }) => raw);
}

const allowed = {
  ALLOWED_TAGS:
    "a b blockquote br code del em h1 h2 h3 h4 h5 h6 hr i img input li ol p pre s strong sub sup table tbody td th thead tr ul".split(
      " ",
    ),
  ALLOWED_ATTR: ["href", "src", "alt", "title", "align", "class", "start", "type", "checked", "disabled"],
  ALLOW_DATA_ATTR: false,
};

const purifier = DOMPurify();
purifier.addHook("afterSanitizeAttributes", (node) => {
  if (node.nodeName === "A") {
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer");
  }
  // A picture of another server would tell it that the answer was read: its address is shown instead.
  if (node.nodeName === "IMG" && !(node.getAttribute("src") ?? "").startsWith("data:image/")) {
    const link = node.ownerDocument.createElement("a");
    link.href = node.getAttribute("src") ?? "";
    link.rel = "noopener noreferrer";
    link.target = "_blank";
    link.textContent = node.getAttribute("alt") || link.href;
    node.replaceWith(link);
  }
  if (node.nodeName === "INPUT" && node.getAttribute("type") !== "checkbox") node.remove();
  // The box of a list of tasks: a reader of the screen says what it shows.
  if (node.nodeName === "INPUT") node.setAttribute("aria-label", node.hasAttribute("checked") ? "done" : "not done");
  // Only a language may be named: another class could give a text the looks of this page's own controls.
  const names = (node.getAttribute("class") ?? "").split(" ").filter((name) => /^language-[\w+#-]+$/.test(name));
  if (names.length > 0) node.setAttribute("class", names.join(" "));
  else node.removeAttribute("class");
});

/** HTML of a Markdown text, without anything that could act. */
export function safeHtml(text: string): string {
  return purifier.sanitize(marked.parse(text, { async: false }), allowed);
}
