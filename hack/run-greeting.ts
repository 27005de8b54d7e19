import type { Piece } from "../src/cli/chat.ts";
import { cell } from "../src/cli/output.ts";
import { conditionOf, type SlotRow } from "../src/cli/slot-words.ts";
import { localUrl } from "../src/lib/listen-address.ts";
import { exportLine } from "./run-settings.ts";

interface Place {
  readonly url: string;
  readonly port: number;
  readonly operatorPort: number;
  readonly configDir: string;
}

/** Returns a remark on a first answer for a person, or undefined if it needs none. */
export function remarkOn(answer: string, slot: SlotRow, isFirstModel: boolean): string | undefined {
  if (isFirstModel) return "This answer is all that the first model can say. A real model answers what you ask.";
  const degraded = conditionOf(slot, "Degraded");
  if (degraded?.status === "True") return cell(degraded.message);
  return answer.trim() === ""
    ? "The model said nothing: `bin/berth slot logs primary` has its engine's log."
    : undefined;
}

/** The places and the commands to try, once a first chat was shown. */
export function greeting(place: Place & { readonly remark: string | undefined }): string {
  const { url, remark } = place;
  const berth = command(place);
  return `
${remark === undefined ? "" : `\n(${remark})\n`}
${places(place)}
${inAnotherTerminal(place)}
  ${berth} status
  ${berth} chat primary "hello"
  curl ${url}/v1/chat/completions -H 'content-type: application/json' -d '{"model":"primary","messages":[{"role":"user","content":"hi"}],"max_tokens":80}'

Ctrl-C stops everything.

`;
}

/** More than the first model's answer has. */
const shownAtMost = 80;

/**
 * The text of a first answer as it comes, and its beginning alone where it is long. A model that thinks first says so, since
 * its thoughts are not shown and take time.
 */
export async function* shownPieces(pieces: AsyncIterable<Piece>): AsyncIterable<string> {
  let hasThought = false;
  let left = shownAtMost;
  for await (const { text, isThought } of pieces) {
    if (isThought) {
      if (!hasThought) yield "(thinks first) ";
      hasThought = true;
      continue;
    }
    if (left === 0) {
      yield " …";
      return;
    }
    left -= 1;
    yield text;
  }
}

/** Tokens are required, and this command has none, or a wrong one: no demonstration. */
export function lockedGreeting(place: Place): string {
  const berth = command(place);
  return `
Berth runs, and requires tokens (SVC_AUTH_ENABLED=1).

${places(place)}
${inAnotherTerminal(place)}
  export SVC_TOKEN=$(bin/berth token create --label me --scope all)
  ${berth} status
  ${berth} chat primary "hello"

Ctrl-C stops everything.

`;
}

function places({ url, configDir }: Place): string {
  return `  API        ${url}/v1
  dashboard  ${url}/
  chat       ${url}/chat/
  config     ${configDir} (edit slots/primary.toml, or add a file, and watch)
`;
}

function inAnotherTerminal(place: Place): string {
  const exported = exportLine(place);
  return `Try in another terminal:${exported === undefined ? "" : `\n  ${exported}`}`;
}

function command({ url, port }: Place): string {
  return `bin/berth${url === localUrl("127.0.0.1", port) ? "" : ` --server ${url}`}`;
}
