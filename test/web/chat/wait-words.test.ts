import assert from "node:assert/strict";
import { it } from "node:test";
import { sendingWords, waitWords } from "../../../web/chat/wait-words.ts";

const comments: readonly (readonly [comment: string, words: string])[] = [
  [
    "waiting slot=primary state=starting progress=41% position=2 waited=12s",
    "primary is starting, 41 %, second in line",
  ],
  [
    'waiting slot=coder state=unloading position=1 doing="draining small for large" waited=3s',
    "coder: draining small for large, first in line",
  ],
  ["waiting model=large state=queued waited=1s", "large is busy"],
  ["something else", "something else"],
];

it("a held request's comment is a sentence, with the slot's step before it loads the model", () => {
  for (const [comment, words] of comments) assert.equal(waitWords(comment).join(", "), words);
});

it("a request says what it waits for from its first moment, and its size where it takes a while to send", () => {
  assert.equal(sendingWords(200, "coder"), "waiting for coder");
  assert.equal(sendingWords(400 * 1024, "coder"), "sending 400 KiB to coder");
});
