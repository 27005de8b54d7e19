import assert from "node:assert/strict";
import { it } from "node:test";
import {
  endAfter,
  shownMessages,
  shownPath,
  versionsOf,
  withInstead,
  withMessage,
  type Branched,
} from "../../../web/chat/branches.ts";
import type { Message } from "../../../web/chat/model.ts";

const asked = (content: string): Message => ({ role: "user", content });
const said = (content: string): Message => ({ role: "assistant", content });
const texts = (conversation: Branched): readonly string[] => shownMessages(conversation).map(({ content }) => content);

it("a conversation without branches is all of its messages", () => {
  const plain = { messages: [asked("a"), said("b"), asked("c")] };
  assert.deepEqual(texts(plain), ["a", "b", "c"]);
  assert.equal(versionsOf(plain.messages).size, 0);
  assert.deepEqual(texts({ messages: [] }), []);
});

it("another answer and another question stand beside the earlier ones, each with what follows it", () => {
  const plain: Branched = { messages: [asked("a"), said("b"), asked("c"), said("d")] };
  const retried = withMessage(plain, said("e"), 2);
  assert.deepEqual(texts(retried), ["a", "b", "c", "e"]);
  const edited = withMessage(retried, asked("f"), -1);
  assert.deepEqual(texts(edited), ["f"]);
  const answered = withMessage(edited, said("g"), 5);
  assert.deepEqual(texts(answered), ["f", "g"]);
  // A message after the last one names no place.
  assert.deepEqual(
    answered.messages.map(({ after }) => after),
    [undefined, undefined, undefined, undefined, 2, -1, undefined],
  );
  const versions = versionsOf(answered.messages);
  assert.deepEqual(
    answered.messages.map((_, place) => versions.get(place)),
    [[0, 5], undefined, undefined, [3, 4], [3, 4], [0, 5], undefined],
  );
  // A question that is shown again comes with the version that was written last.
  assert.deepEqual(texts({ ...answered, shown: endAfter(answered.messages, 0) }), ["a", "b", "c", "e"]);
  assert.deepEqual(texts({ ...answered, shown: endAfter(answered.messages, 3) }), ["a", "b", "c", "d"]);
  const goesOn = withMessage({ ...answered, shown: 3 }, asked("h"), 3);
  assert.deepEqual(texts({ ...goesOn, shown: endAfter(goesOn.messages, 0) }), ["a", "b", "c", "d", "h"]);
});

it("an answer that gives way keeps its place", () => {
  const branched = withMessage({ messages: [asked("a"), said("b")] }, said(""), 0);
  const instead = withInstead(branched, said("c"), 2);
  assert.deepEqual(texts(instead), ["a", "c"]);
  assert.deepEqual(versionsOf(instead.messages).get(1), [1, 2]);
});

it("a file that names places that cannot be is read all the same", () => {
  const odd = {
    messages: [
      { ...asked("a"), after: 7 },
      { ...said("b"), after: 1 },
    ],
    shown: 90,
  };
  assert.deepEqual(shownPath(odd), [0, 1]);
});
