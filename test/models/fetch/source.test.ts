import assert from "node:assert/strict";
import { it } from "node:test";
import { FetchError } from "../../../src/models/fetch/fetch-error.ts";
import { parseSource } from "../../../src/models/fetch/source.ts";
import { thrownBy } from "../../support/rejection.ts";

it("reads what a source names", () => {
  assert.deepEqual(parseSource("hf://owner/repo/sub/file.gguf@refs/pr/1"), {
    scheme: "hf",
    owner: "owner",
    repo: "repo",
    path: "sub/file.gguf",
    revision: "refs/pr/1",
    fileName: "file.gguf",
  });
  const web = parseSource("https://example.test/a/model%20one.gguf?x=1");
  assert.equal(web.scheme === "https" ? web.fileName : "", "model one.gguf");
  for (const host of ["localhost", "127.0.0.1:8000", "[::1]:8000"])
    assert.equal(parseSource(`http://${host}/a.gguf`).scheme, "https", host);
  assert.equal(parseSource("file:///models/a.gguf").scheme, "file");
  assert.deepEqual(parseSource("flm://llama3.2:1b"), { scheme: "flm", model: "llama3.2:1b" });
});

it("refuses texts that are no source, and paths that would leave the directory", () => {
  for (const [text, why] of [
    ["qwen3:4b", /is no source/],
    ["ftp://example.test/a.gguf", /scheme ftp, which cannot be fetched/],
    ["hf://owner/repo", /is no hf:\/\/owner\/repo\/file/],
    ["hf://owner/repo/", /odd path/],
    ["hf://../repo/a.gguf", /is no hf/],
    ["hf://owner/repo/../../a.gguf", /odd path/],
    ["hf://owner/repo/.hidden", /names no file/],
    ["hf://owner/repo/a.gguf@../main", /revision/],
    ["hf://owner/repo/a.gguf@", /revision/],
    ["https://example.test/", /names no file/],
    [`https://example.test/${"\u6a21".repeat(100)}.gguf`, /names a file by more than 200 bytes: name it by `as`/],
    ["https://example.test/a%2Fb", /names no file/],
    ["https://example.test/%2e%2e%2fetc", /names no file/],
    ["https://user:secret@example.test/a.gguf", /password/],
    ["http://example.test/a.gguf", /plain http/],
    ["file://a.gguf", /is no file:\/\/\/absolute/],
    ["flm://../x", /is no flm/],
    ["https://example.test/a\r\nb", /names no file|plain|URL/],
  ] as const) {
    let refusal: FetchError | undefined;
    try {
      const found = parseSource(text);
      // The URL parser drops line ends: what is left is a plain name.
      assert.ok(text.includes("\n") && found.scheme === "https" && found.fileName === "ab", text);
      continue;
    } catch (error) {
      if (!(error instanceof FetchError)) throw error;
      refusal = error;
    }
    assert.match(refusal.message, why, text);
    assert.equal(refusal.isTerminal, true);
    assert.equal(refusal.message.includes("secret"), false);
  }
  assert.match(thrownBy(() => parseSource(`https://a/${"x".repeat(3000)}`), FetchError).message, /too long/);
});
