import assert from "node:assert/strict";
import { connect } from "node:net";
import { describe, it } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { startWhisperDouble } from "../../../doubles/whisper.ts";
import { envelopeIn } from "../../../support/envelope.ts";
import { sizeOf } from "../../../../src/lib/exchange.ts";
import { cutAt, formBody } from "../../../support/form.ts";
import { fc } from "../../../support/fast-check.ts";
import { startGateway, type TestGateway } from "../../../support/gateway.ts";
import { slot, transcriptions } from "./gateway.ts";

const disposition = 'Content-Disposition: form-data; name="model"';
const whole = formBody("b", [
  { name: "model", value: "stt" },
  { name: "file", filename: "a.wav", type: "audio/wav", value: `RIFF0000WAVE${"x".repeat(200)}` },
  { name: "language", value: "en" },
]);

/** Forms that clients have got wrong, or might; what found a failure once stays here. */
const corpus: readonly (readonly [what: string, body: string, type?: string])[] = [
  ["nothing", ""],
  ["one byte", "-"],
  ["the last boundary alone", "--b--"],
  ["the last boundary twice", "--b--\r\n--b--\r\n"],
  ["bare line feeds", whole.toString().replaceAll("\r\n", "\n")],
  ["a boundary without its dashes", whole.toString().replaceAll("--b", "b")],
  ["a boundary in the wrong case", whole.toString().replaceAll("--b", "--B")],
  ["a part of nothing but its name", `--b\r\n${disposition}\r\n--b--`],
  ["a header that never ends", `--b\r\n${disposition}${" ".repeat(100_000)}`],
  ["a name that never ends", `--b\r\nContent-Disposition: form-data; name="model\r\n\r\nstt\r\n--b--`],
  ["a name with line feeds", `--b\r\n${disposition.replace("model", "mo\ndel")}\r\n\r\nstt\r\n--b--`],
  ["a folded header", `--b\r\nContent-Disposition: form-data;\r\n name="model"\r\n\r\nstt\r\n--b--`],
  [
    "a nested form",
    `--b\r\n${disposition}\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n\r\n--c--\r\n--b--`,
  ],
  ["zeroes", "\u0000".repeat(5000)],
  ["a thousand parts", `--b\r\n${disposition.replace("model", "x")}\r\n\r\n\r\n`.repeat(1000)],
  ["a model that is no UTF-8", `--b\r\n${disposition}\r\n\r\n\u00ff\u00fe\r\n--b--`],
  ["a model of a megabyte", `--b\r\n${disposition}\r\n\r\n${"m".repeat(1_000_000)}\r\n--b--`],
  ["another kind of form", "model=stt", "application/x-www-form-urlencoded"],
  ["a boundary of blanks", whole.toString(), 'multipart/form-data; boundary="   "'],
  ["two boundaries", whole.toString(), "multipart/form-data; boundary=a; boundary=b"],
  ["no type", whole.toString(), ""],
];

const type = "multipart/form-data; boundary=b";

/**
 * Sends the bytes as they are. `length`: what the header claims; `turns`: of the event loop after each piece. Returns "" where
 * the connection was reset, as it may be where the gateway has answered before all was sent.
 */
async function send(
  gateway: TestGateway,
  body: readonly Buffer[],
  type: string,
  { length = sizeOf(body), turns = 0 } = {},
): Promise<string> {
  const { hostname, port } = new URL(gateway.url);
  const socket = connect(Number(port), hostname);
  const answer = Promise.withResolvers<string>();
  const received: Buffer[] = [];
  socket.setTimeout(60_000, () => answer.reject(new Error("no answer within a minute")));
  socket.on("error", () => undefined);
  socket.on("data", (chunk) => received.push(chunk));
  socket.once("close", () => answer.resolve(Buffer.concat(received).toString()));
  const typeLine = type === "" ? "" : `content-type: ${type}\r\n`;
  socket.write(
    `POST ${transcriptions} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n${typeLine}content-length: ${length}\r\n\r\n`,
  );
  for (const piece of body) {
    await new Promise((resolve) => socket.write(piece, resolve));
    for (let turn = 0; turn < turns; turn++) await nextTurn();
  }
  if (sizeOf(body) < length) socket.end();
  return await answer.promise.finally(() => socket.destroy());
}

function check(answer: string): void {
  const [head = "", body = ""] = answer.split("\r\n\r\n");
  const status = Number(head.split(" ")[1]);
  if (status === 200) return;
  assert.ok(status >= 400 && status < 500 && status !== 408, head);
  envelopeIn(body);
}

describe("a malformed form", () => {
  it("is answered 4xx with the envelope, and never with an internal error or a hang", async () => {
    await using engine = await startWhisperDouble({ path: transcriptions });
    await using gateway = await startGateway({ slots: { stt: slot("stt", engine.port) } });
    for (const [what, body, other = type] of corpus) {
      const answer = await send(gateway, [Buffer.from(body, "latin1")], other);
      assert.match(answer, /^HTTP\/1\.1 4\d\d /, what);
      check(answer);
    }
    // Shorter than it claims: whoever sends that may have gone, and gets an answer or none.
    const cut = await send(gateway, [whole.subarray(0, 100)], type, { length: whole.length });
    if (cut !== "") check(cut);
    check(await send(gateway, [whole], type));
  });

  it("is read where a part of it, long and without a name, is left out", async () => {
    await using engine = await startWhisperDouble({ path: transcriptions });
    await using gateway = await startGateway({ slots: { stt: slot("stt", engine.port) } });
    const nameless = `--b\r\nX: y\r\n\r\n${"z".repeat(70_000)}\r\n`;
    const answer = await send(gateway, [Buffer.concat([Buffer.from(nameless), whole])], type);
    assert.match(answer, /^HTTP\/1\.1 200 /);
  });

  it("is read where pieces of its file end like the beginning of a boundary", async () => {
    await using engine = await startWhisperDouble({ path: transcriptions });
    await using gateway = await startGateway({ slots: { stt: slot("stt", engine.port) } });
    const file = '--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n';
    const pieces = [`--b\r\n${disposition}\r\n\r\nstt\r\n${file}`, "RIFF", "\r\n--", "\r\n--", "zzz\r\n--b--\r\n"];
    const answer = await send(
      gateway,
      pieces.map((piece) => Buffer.from(piece)),
      type,
      // The gateway reads each piece alone.
      { turns: 5 },
    );
    assert.match(answer, /^HTTP\/1\.1 200 /);
  });

  it("however it is malformed, and in whichever pieces it comes, is answered", async () => {
    await using engine = await startWhisperDouble({ path: transcriptions });
    await using gateway = await startGateway({ slots: { stt: slot("stt", engine.port) } });
    const dispositions = ["model", 'file"; filename="a', "language"].map(
      (name) => `Content-Disposition: form-data; name="${name}"\r\n\r\n`,
    );
    const [named = "", filed = ""] = dispositions;
    const pieces = [
      "--b",
      "\r\n",
      "\r\n--b\r\n",
      "\r\n--b--",
      ...dispositions,
      ";name=",
      '"',
      ":",
      "x",
      "stt",
      "\u0000",
    ];
    const valid = ["--b\r\n", named, "stt", "\r\n--b\r\n", filed, "RIFF0000WAVE", "\r\n--b--", "\r\n"];
    const edit = fc.record({
      at: fc.nat({ max: valid.length }),
      removed: fc.nat({ max: 1 }),
      added: fc.array(fc.constantFrom(...pieces), { maxLength: 2 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(edit, { maxLength: 3 }), fc.array(fc.nat(), { maxLength: 3 }), async (edits, cuts) => {
        const edited = [...valid];
        for (const { at, removed, added } of edits) edited.splice(at, removed, ...added);
        const body = cutAt(Buffer.from(edited.join("")), cuts);
        const answer = await send(gateway, body, type);
        if (answer !== "" || body.length === 1) check(answer);
      }),
    );
  });
});
