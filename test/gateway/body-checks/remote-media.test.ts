import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ApiError } from "../../../src/api/errors.ts";
import { scanBody } from "../../../src/lib/json-scan.ts";
import { checkRemoteMedia } from "../../../src/gateway/body-checks/remote-media.ts";

/** The place that a refusal names, "" where the body is let through. */
function refusedAt(body: string): string {
  const bytes = Buffer.from(body);
  const scanned = scanBody(bytes);
  assert.ok(scanned !== undefined);
  try {
    checkRemoteMedia(bytes, scanned);
    return "";
  } catch (error) {
    assert.ok(error instanceof ApiError && error.code === "dispatch.invalid_request");
    return /^([^ :]+)/.exec(error.message)?.[1] ?? "?";
  }
}
const chat = (part: unknown): string => JSON.stringify({ messages: [{ role: "user", content: [part] }] });
const part = "messages.0.content.0";
const inner = "http://169.254.169.254/latest/meta-data/";

describe("addresses in messages", () => {
  for (const [what, body, place] of [
    ["a picture", chat({ type: "image_url", image_url: { url: inner } }), `${part}.image_url.url`],
    ["a picture, as older clients name it", chat({ type: "image_url", image_url: inner }), `${part}.image_url`],
    ["a file", chat({ type: "image_url", image_url: { url: "file:///etc/passwd" } }), `${part}.image_url.url`],
    ["a video", chat({ type: "video_url", video_url: { url: inner } }), `${part}.video_url.url`],
    ["a picture of Messages", chat({ type: "image", source: { type: "url", url: inner } }), `${part}.source.url`],
    [
      "a picture of Responses",
      JSON.stringify({ input: [{ role: "user", content: [{ type: "input_image", image_url: inner }] }] }),
      "input.0.content.0.image_url",
    ],
    [
      "a picture within a tool's result",
      chat({ type: "tool_result", content: [{ type: "image", source: { type: "url", url: inner } }] }),
      `${part}.content.0.source.url`,
    ],
    [
      "a name and an address spelt with escapes",
      String.raw`{"messages":[{"content":[{"image\u005furl":{"ur\u006c":"\u0068ttp://127.0.0.1/"}}]}]}`,
      `${part}.image_url.url`,
    ],
  ] satisfies [string, string, string][]) {
    it(`are refused: ${what}`, () => assert.equal(refusedAt(body), place));
  }

  for (const [what, body] of [
    ["a picture that is in the request", chat({ type: "image_url", image_url: { url: "data:image/png;base64,AA==" } })],
    ["an address in a text", chat({ type: "text", text: `look at ${inner}, or at {"url": "http://a.test"}` })],
    ["an address in a tool's schema", JSON.stringify({ messages: [], tools: [{ url: inner }] })],
    ["letters that are escaped because they are not of ASCII", String.raw`{"messages":[{"content":"caf\u00e9"}]}`],
  ] satisfies [string, string][]) {
    it(`are no reason to refuse ${what}`, () => assert.equal(refusedAt(body), ""));
  }
});
