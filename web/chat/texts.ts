import type { Message, TextFile } from "./model.ts";

/** More would fill most models' context. */
const longestBytes = 256 * 1024;
/** Browsers know no type for most of them. */
const ending =
  /\.(?:bat|c|cc|cfg|conf|cpp|cs|css|csv|diff|env|go|h|hpp|html?|ini|java|jsx?|jsonl?|kt|log|lua|md|mjs|patch|php|pl|ps1|py|rb|rs|rst|sh|sql|swift|tex|toml|tsv|tsx?|txt|vue|xml|ya?ml)$/i;

export const isText = ({ name, type }: File): boolean => type.startsWith("text/") || ending.test(name);

/** An attached file. Throws where it is too large, or no text. */
export async function textOf(file: File): Promise<TextFile> {
  if (file.size > longestBytes) throw new Error(`${file.name} is larger than 256 KiB; attach a part of it.`);
  const text = await file.text();
  if (text.includes("\0")) throw new Error(`${file.name} is no text.`);
  return { name: file.name, text };
}

/** A question as a model reads it: each attached text as a code block under its name, then the person's own words. */
export function wholeText({ content, files = [] }: Pick<Message, "content" | "files">): string {
  return [...files.map(block), content].filter((part) => part !== "").join("\n\n");
}

function block({ name, text }: TextFile): string {
  return `${name}:\n${fenced(text.trimEnd(), /\w+$/.exec(name)?.[0])}`;
}

/** In more backquotes than the text has in a row. */
export function fenced(text: string, language = ""): string {
  const longest = (text.match(/`+/g) ?? []).reduce((most, { length }) => Math.max(most, length), 2);
  const fence = "`".repeat(longest + 1);
  return `${fence}${language}\n${text}\n${fence}`;
}
