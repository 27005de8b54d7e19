import { argv } from "node:process";
import { writeTinyModel, type TinyOptions } from "./tiny-model.ts";

/** The model that a first start serves: `node hack/first-model.ts FILE.gguf`. Its weights hold one answer. */

/** The answer of the first model to any request. */
export const firstAnswer =
  "Hello from Berth! I am a tiny model that was made on this machine, and this answer is all I can say, whatever you ask. " +
  "To talk with a real model, stop Berth and start it by `make run MODEL=qwen3-4b`; " +
  "`bin/berth model catalog` lists more of them and says which fit here.";

/** The last message alone: a conversation of any length fits into the context. */
const chatTemplate =
  "{% for message in messages[-1:] %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}" +
  "{% if add_generation_prompt %}assistant:{% endif %}";

/** The text in words, each with the blank before it; a word that was said before stands with the next ones, as ` model catalog`. */
function wordsOf(text: string): string[] {
  const pieces: string[] = [];
  let piece = "";
  for (const word of text.match(/ ?[^ ]+/g) ?? []) {
    piece += word;
    if (pieces.includes(piece)) continue;
    pieces.push(piece);
    piece = "";
  }
  return pieces;
}

export const firstModel = { name: "first model", says: wordsOf(firstAnswer), chatTemplate } satisfies TinyOptions;

/** Writes the first model to its path, whole or not at all. */
export async function writeFirstModel(path: string): Promise<void> {
  await writeTinyModel(path, firstModel);
}

if (import.meta.main) {
  const [path] = argv.slice(2);
  if (path === undefined) {
    process.stderr.write("usage: node hack/first-model.ts FILE.gguf\n");
    process.exit(2);
  }
  await writeFirstModel(path);
}
