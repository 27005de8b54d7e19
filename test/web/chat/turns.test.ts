import assert from "node:assert/strict";
import { it } from "node:test";
import type { Message } from "../../../web/chat/model.ts";
import { afterRetry, sentMessages } from "../../../web/chat/turns.ts";
import { thoughtsOf } from "../../../web/shared/thoughts.ts";

const question = (content: string, ...images: string[]): Message => ({
  role: "user",
  content,
  ...(images.length > 0 && { images }),
});
const answer = (content: string, more: Partial<Message> = {}): Message => ({ role: "assistant", content, ...more });
const picture = "data:image/png;base64,AA==";

it("a model is sent neither questions whose answer has failed nor the pictures that a model has drawn", () => {
  const sent = sentMessages([
    question("refused"),
    answer("", { failure: "The slot has failed" }),
    question("lost with the page"),
    question("draw a cat"),
    answer("", { images: [picture] }),
    question("what is this?", picture),
    answer("a cat", { images: [picture] }),
    question("go on"),
    answer("half of", { failure: "Stopped." }),
    question("this one"),
  ]);
  assert.deepEqual(sent, [
    {
      role: "user",
      content: [
        { type: "text", text: "what is this?" },
        { type: "image_url", image_url: { url: picture } },
      ],
    },
    { role: "assistant", content: "a cat" },
    { role: "user", content: "go on" },
    { role: "assistant", content: "half of" },
    { role: "user", content: "this one" },
  ]);
});

it("a question whose answer has failed is sent where a person retries it", () => {
  assert.deepEqual(sentMessages([question("refused")]), [{ role: "user", content: "refused" }]);
});

it("a retry that fails leaves the better answer", () => {
  const good = answer("good");
  const cut = answer("cut", { failure: "cut off" });
  const nothing = answer("", { failure: "refused" });
  for (const [earlier, reply, expected] of [
    [good, answer("new"), answer("new")],
    [good, nothing, good],
    [good, cut, good],
    [answer("", { images: [picture] }), nothing, answer("", { images: [picture] })],
    [cut, nothing, cut],
    [cut, answer("more", { failure: "Stopped." }), answer("more", { failure: "Stopped." })],
    [nothing, answer("", { failure: "again" }), answer("", { failure: "again" })],
  ] as const)
    assert.deepEqual(afterRetry([earlier], reply), [expected]);
  assert.deepEqual(afterRetry([], nothing), [nothing]);
});

it("a model's thoughts are shown under any engine's name for them", () => {
  for (const [delta, thoughts] of [
    [{ reasoning_content: "so" }, "so"],
    [{ reasoning: "so" }, "so"],
    [{ reasoning_content: null, reasoning: "so" }, "so"],
    [{ reasoning_content: "", reasoning: "so" }, "so"],
    [{ reasoning_content: "so", reasoning: "so" }, "so"],
    [{ reasoning: { effort: "low" } }, ""],
    [{}, ""],
  ] as const)
    assert.equal(thoughtsOf(delta), thoughts);
});
