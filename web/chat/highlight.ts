import highlighter from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import { copy } from "../shared/copy.ts";
import { isColourable } from "./code-bounds.ts";

const languages = {
  bash,
  c,
  cpp,
  css,
  diff,
  go,
  ini,
  java,
  javascript,
  json,
  python,
  rust,
  sql,
  typescript,
  xml,
  yaml,
};
for (const [name, language] of Object.entries(languages)) highlighter.registerLanguage(name, language);
highlighter.registerAliases(["toml"], { languageName: "ini" });
highlighter.registerAliases(["sh", "shell", "console"], { languageName: "bash" });

/** Colours the code of an element, and gives each block a header: its language, and buttons that wrap and copy it. */
export function highlightIn(element: HTMLElement): void {
  for (const code of element.querySelectorAll<HTMLElement>("pre > code")) {
    const text = code.textContent ?? "";
    const name = /language-([\w+#-]+)/.exec(code.className)?.[1]?.toLowerCase();
    if (name !== undefined && isColourable(text) && highlighter.getLanguage(name) !== undefined)
      code.innerHTML = highlighter.highlight(text, { language: name }).value;
    const block = code.parentElement;
    if (block === null || block.parentElement?.className === "code") continue;
    const box = document.createElement("div");
    box.className = "code";
    block.replaceWith(box);
    box.append(headOf(name ?? "text", block, text), block);
    // Code that is wider than its box is scrolled by the keyboard, too.
    block.tabIndex = 0;
  }
}

function headOf(language: string, block: HTMLElement, text: string): HTMLElement {
  const head = document.createElement("div");
  const name = document.createElement("span");
  name.textContent = language;
  const wrap = buttonOf("Wrap", () => {
    const isWrapped = block.classList.toggle("wrapped");
    wrap.ariaPressed = String(isWrapped);
  });
  wrap.ariaPressed = "false";
  const copies = buttonOf("Copy code", () => void copy(text).then((words) => (copies.textContent = words)));
  head.append(name, wrap, copies);
  return head;
}

function buttonOf(words: string, act: () => void): HTMLButtonElement {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "ghost";
  button.textContent = words;
  button.addEventListener("click", act);
  return button;
}
