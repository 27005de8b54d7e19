import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { readTypedName, sameFamily, type TypedName } from "../../src/models/typed-name.ts";

/** In short: `name X`, `repository o/r tag@revision`, `files …`, or `unreadable`. */
function short(name: TypedName): string {
  switch (name.kind) {
    case "name":
      return `name ${name.name}`;
    case "repository":
      return `repository ${name.owner}/${name.repo} ${name.tag ?? "-"}@${name.revision}`;
    case "files":
      return `files ${name.sources.join(" ")}`;
    case "unreadable":
      return "unreadable";
    default:
      return name satisfies never;
  }
}

describe("a name that a person types", () => {
  for (const [typed, read] of [
    ["qwen3-4b", "name qwen3-4b"],
    [" qwen3:4b ", "name qwen3:4b"],
    ["vendor:free", "name vendor:free"],
    ["Qwen/Qwen3-4B-GGUF", "repository Qwen/Qwen3-4B-GGUF -@main"],
    ["Qwen/Qwen3-4B-GGUF:Q4_K_M", "repository Qwen/Qwen3-4B-GGUF Q4_K_M@main"],
    ["o/r:Q8_0@v2", "repository o/r Q8_0@v2"],
    ["o/r@v2", "repository o/r -@v2"],
    ["hf://o/r", "repository o/r -@main"],
    ["hf://o/r:Q8_0", "repository o/r Q8_0@main"],
    ["hf.co/o/r", "repository o/r -@main"],
    ["hf.co/o/r:Q4_K_M", "repository o/r Q4_K_M@main"],
    ["huggingface.co/o/r", "repository o/r -@main"],
    ["https://huggingface.co/o/r", "repository o/r -@main"],
    ["HTTPS://HuggingFace.co/o/r/", "repository o/r -@main"],
    ["https://hf.co/o/r:Q4_K_M", "repository o/r Q4_K_M@main"],
    ["https://huggingface.co/o/r?show_file_info=a.gguf#x", "repository o/r -@main"],
    ["https://huggingface.co/o/r/discussions/3", "repository o/r -@main"],
    ["https://huggingface.co/o/r/tree/main", "repository o/r -@main"],
    ["https://huggingface.co/o/r/tree/v2/sub", "repository o/r -@v2"],
    ["https://huggingface.co/o/r/tree/refs%2Fpr%2F1", "repository o/r -@refs/pr/1"],
    ["https://huggingface.co/o/r/blob/main/a.gguf", "files hf://o/r/a.gguf"],
    ["https://huggingface.co/o/r/resolve/v2/sub/a%20b.gguf?download=true", "files hf://o/r/sub/a b.gguf@v2"],
    ["hf://o/r/a.gguf", "files hf://o/r/a.gguf"],
    ["hf://o/r/a.gguf@v2", "files hf://o/r/a.gguf@v2"],
    ["o/r/sub/a.gguf", "files hf://o/r/sub/a.gguf"],
    [
      "https://huggingface.co/o/r/blob/main/a-00002-of-00002.gguf",
      "files hf://o/r/a-00001-of-00002.gguf hf://o/r/a-00002-of-00002.gguf",
    ],
    ["hf://o/r/a-00001-of-00002.gguf@v2", "files hf://o/r/a-00001-of-00002.gguf@v2 hf://o/r/a-00002-of-00002.gguf@v2"],
    ["hf://o/r/a-00001-of-99999.gguf", "files hf://o/r/a-00001-of-99999.gguf"],
    ["https://h.test/a.gguf?x=1", "files https://h.test/a.gguf?x=1"],
    ["ftp://h.test/a.gguf", "files ftp://h.test/a.gguf"],
    ["https://huggingface.co/datasets/o/r", "unreadable"],
    ["https://huggingface.co/o", "unreadable"],
    ["https://huggingface.co/%zz/r", "unreadable"],
    ["hf.co/../r", "unreadable"],
    ["../r", "name ../r"],
    ["a/b/c", "name a/b/c"],
    ["", "name "],
  ] as const) {
    it(`${typed} is ${read}`, () => assert.equal(short(readTypedName(typed)), read));
  }
});

describe("the entries of a catalogue that a name stands for", () => {
  const ids = [
    "qwen3-0.6b",
    "qwen3-4b",
    "qwen3-embedding-0.6b",
    "gemma-3-4b-it",
    "llama-3.1-8b-instruct",
    "whisper-base",
    "nomic-embed-text-v1.5",
  ];
  for (const [name, exact, family] of [
    ["qwen3:4b", ["qwen3-4b"], 2],
    ["QWEN3:4B", ["qwen3-4b"], 2],
    ["qwen3:14b", [], 2],
    ["qwen3", ["qwen3-0.6b", "qwen3-4b"], 2],
    ["qwen3:latest", ["qwen3-0.6b", "qwen3-4b"], 2],
    ["qwen3:4b-thinking", [], 2],
    ["qwen3-embedding:0.6b", ["qwen3-embedding-0.6b"], 1],
    ["gemma3:4b", ["gemma-3-4b-it"], 1],
    ["gemma3:4b-it", ["gemma-3-4b-it"], 1],
    ["llama3.1:8b", ["llama-3.1-8b-instruct"], 1],
    ["whisper:base", ["whisper-base"], 1],
    ["nobody:4b", [], 0],
  ] as const) {
    it(`${name} stands for ${exact.join(", ") || "none"}`, () => {
      const found = sameFamily(name, ids);
      assert.deepEqual([found.exact, found.family.length], [exact, family]);
    });
  }
});
