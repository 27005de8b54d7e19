/** The JSON value of a text; undefined for invalid JSON, since no JSON value is undefined. */
export function parseJson(text: string | Buffer): unknown {
  try {
    return JSON.parse(text.toString());
  } catch {
    return undefined;
  }
}
