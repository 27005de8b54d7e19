import assert from "node:assert/strict";
import { it } from "node:test";
import { transcriptionAnswers } from "../../../src/gateway/audio/transcription-answer.ts";
import { eventsOf } from "../../../src/gateway/audio/transcription-stream.ts";

it("a transcription of hours with all its words passes unchanged, and becomes events", () => {
  const words = Array.from({ length: 20_000 }, (_, at) => ({ word: `w${at}`, start: at, end: at + 0.5 }));
  const answer = Buffer.from(JSON.stringify({ words, text: "all of it", usage: { type: "duration", seconds: 9 } }));
  const answers = transcriptionAnswers(new Map());
  assert.equal(answers.answer(answer), answer);
  assert.match(eventsOf(answer).toString(), /"type":"transcript.text.done","text":"all of it","usage":\{"type":"dur/);
  const cut = answer.subarray(0, -1);
  assert.throws(() => answers.answer(cut), { code: "dispatch.upstream_failed" });
});
