import { invalidRequest } from "../../api/problems.ts";
import { isParseable, parsedBounds, parseJson } from "../../lib/json.ts";
import type { ScannedBody } from "../../lib/json-scan.ts";
import { isRecord } from "../../lib/record.ts";

type Path = readonly (string | number)[];

const remote = /^\s*(?:https?|file|ftp):/i;
/**
 * Refuses pictures, sounds and videos that a message names by address. A `llama-server` with a projector fetches such an
 * address itself, from where the engine runs: any client could read services of the machine and of its network. Costs
 * nothing where no text of the body begins like an address. Throws ApiError `dispatch.invalid_request`.
 */
export function checkRemoteMedia(body: Buffer, { mayNameAddress }: Pick<ScannedBody, "mayNameAddress">): void {
  if (!mayNameAddress) return;
  if (!isParseable(body)) {
    const message = `the body holds too much to be searched for addresses of pictures: at most ${parsedBounds}`;
    throw invalidRequest([{ path: [], message }]);
  }
  const parsed = parseJson(body);
  if (!isRecord(parsed)) return;
  for (const field of ["messages", "input", "system"]) {
    const path = addressIn(parsed[field], [field]);
    if (path === undefined) continue;
    const message = "must be a data: URL (data:image/png;base64,…): the engine of this slot must not fetch addresses";
    throw invalidRequest([{ path, message }]);
  }
}

/** The path of the first address: parts of a content are searched, texts and arguments of tools are not. */
function addressIn(value: unknown, path: Path): Path | undefined {
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      const found = addressIn(item, [...path, index]);
      if (found !== undefined) return found;
    }
    return undefined;
  }
  if (!isRecord(value)) return undefined;
  for (const [name, item] of Object.entries(value)) {
    const at = [...path, name];
    if (typeof item === "string") {
      if (/url$/i.test(name) && remote.test(item)) return at;
    } else if (name === "content" || name === "source" || name === "output" || isMedia(name)) {
      const found = addressIn(item, at);
      if (found !== undefined) return found;
    }
  }
  return undefined;
}

/** Whether the OpenAI, Responses and Messages APIs, or servers that go beyond them, name media so. */
function isMedia(name: string): boolean {
  return /^(?:input_)?(?:image|audio|video|file)(?:_url)?$/.test(name);
}
