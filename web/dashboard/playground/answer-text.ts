/** Bytes of an answer that are shown; an endless stream is shown up to here. */
const shownBytes = 262_144;

export interface RawAnswer {
  readonly status: number;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly text: string;
  /** More came, which is not shown. */
  readonly isCut: boolean;
}

/**
 * Reads an answer as far as it is shown. `onText` hears what has arrived so far: an endless stream is seen while it comes.
 * Throws a sentence where the connection breaks.
 */
export async function readAnswer(response: Response, onText: (answer: RawAnswer) => void): Promise<RawAnswer> {
  const { status, body } = response;
  const headers = [...response.headers];
  const isText = /^(?:text\/|application\/(?:json|yaml|x-ndjson|openmetrics-text))|\+json/.test(
    response.headers.get("content-type") ?? "text/",
  );
  const decoder = new TextDecoder();
  let [text, bytes] = ["", 0];
  let isCut = false;
  const answer = (): RawAnswer => ({
    status,
    headers,
    text: isText ? text : `${bytes}${isCut ? " or more" : ""} bytes that are no text`,
    isCut,
  });
  const reader = body?.getReader();
  while (reader !== undefined) {
    const { done, value } = await reader.read().catch((error: unknown) => {
      throw new Error("The connection to Berth was lost before its end.", { cause: error });
    });
    if (done) break;
    const room = shownBytes - bytes;
    isCut = value.length > room;
    text += decoder.decode(isCut ? value.subarray(0, room) : value, { stream: true });
    bytes += Math.min(value.length, room);
    onText(answer());
    if (!isCut) continue;
    await reader.cancel();
    break;
  }
  text += decoder.decode();
  const whole = answer();
  return isText && !isCut ? { ...whole, text: indented(whole.text) } : whole;
}

/** JSON with a line for each field; any other text as it is. */
function indented(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), undefined, 2);
  } catch {
    return text;
  }
}
