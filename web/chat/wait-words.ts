import { byteText } from "../../src/api/byte-text.ts";

const ordinals = ["first", "second", "third", "fourth", "fifth"] as const;

/** The parts of a sentence of `waiting slot=primary state=unloading progress=41% position=2 doing="draining a for b" waited=12s`. */
export function waitWords(comment: string): readonly string[] {
  if (!/^\s*waiting\b/.test(comment)) return [comment];
  const pairs = comment.matchAll(/(\w+)=(?:"([^"]*)"|(\S*))/g);
  const fields = new Map([...pairs].map(([, key = "", quoted, plain = ""]) => [key, quoted ?? plain]));
  const name = fields.get("slot") ?? fields.get("upstream") ?? fields.get("model") ?? "the model";
  const states: Readonly<Record<string, string>> = {
    pulling: "is being fetched",
    starting: "is starting",
    warming: "is loading",
    unloading: "is leaving, and comes back",
    offline: "is about to be loaded",
    error: "has failed, and is tried again",
  };
  const doing = fields.get("doing");
  const words = [
    doing === undefined ? `${name} ${states[fields.get("state") ?? ""] ?? "is busy"}` : `${name}: ${doing}`,
  ];
  const progress = fields.get("progress");
  if (progress !== undefined) words.push(progress.replace("%", " %"));
  const position = Number(fields.get("position") ?? 0);
  if (position > 0) words.push(`${ordinals[position - 1] ?? `number ${position}`} in line`);
  return words;
}

/** Less than this is sent before a person could read that. */
const noticeableBytes = 64 * 1024;

/** What is said of a request of that size until its answer begins. A browser does not tell when all of it is sent. */
export function sendingWords(bytes: number, model: string): string {
  return bytes < noticeableBytes ? `waiting for ${model}` : `sending ${byteText(bytes)} to ${model}`;
}
