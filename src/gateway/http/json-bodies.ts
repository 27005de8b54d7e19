import { isUtf8 } from "node:buffer";
import type { FastifyInstance } from "fastify";
import { ApiError } from "../../api/errors.ts";
import { invalidRequest } from "../../api/problems.ts";

/** Deeper than any manifest; functions that walk a value recursively must not exhaust the stack. */
const deepest = 64;
/** More than any manifest has; checks of every value of a body must not block other requests. */
const mostValues = 10_000;

/**
 * JSON is the only body of Fastify's routes, also where no body is needed: a body that a form of another site can send
 * without a preflight is 415, and so is a compressed body. Keys that would reach a prototype are 400, and so is a body
 * that no file could hold: values nested too deep, invalid UTF-8, and lone surrogates.
 */
export function takeJsonOnly(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser("error", "error");
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("application/json", { parseAs: "buffer" }, (request, body, done) => {
    // Clients send the content type of a body that they then omit.
    if (body.length === 0) {
      done(null, undefined);
      return;
    }
    const encoding = request.headers["content-encoding"]?.trim().toLowerCase() ?? "";
    if (encoding !== "" && encoding !== "identity") {
      const message = "a compressed body is not taken here: send it without content-encoding";
      done(new ApiError("dispatch.unsupported_media_type", { message }));
      return;
    }
    if (typeof body === "string" || !isUtf8(body)) {
      done(refused("is not UTF-8"));
      return;
    }
    const text = body.toString();
    const excess = excessOf(text);
    if (excess !== undefined) {
      done(refused(excess));
      return;
    }
    void parse(request, text, (error, value: unknown) => {
      if (error === null && !isWellFormed(value)) done(refused("holds half a character (a surrogate on its own)"));
      else done(error, value);
    });
  });
}

function refused(why: string): Error {
  return invalidRequest([{ path: [], message: `the body ${why}` }]);
}

/** Checked before parsing, and without recursion. Skips texts, since a conversation's pictures are long ones. */
function excessOf(text: string): string | undefined {
  let depth = 0;
  let values = 1;
  for (let at = 0; at < text.length; at += 1) {
    const letter = text[at];
    if (letter === '"') at = endOfText(text, at);
    else if (letter === "{" || letter === "[") {
      depth += 1;
      if (depth > deepest) return `is nested more than ${deepest} deep`;
    } else if (letter === "}" || letter === "]") depth -= 1;
    else if (letter === ",") {
      values += 1;
      if (values > mostValues) return `holds more than ${mostValues} values`;
    }
  }
  return undefined;
}

/** Where the quotation mark is that ends the text that begins at `start`; the body's length where none ends it. */
function endOfText(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let before = at;
    while (text[before - 1] === "\\") before -= 1;
    // Of an even number of backslashes each pair is one backslash of the text.
    if ((at - before) % 2 === 0) return at;
  }
  return text.length;
}

function isWellFormed(value: unknown): boolean {
  if (typeof value === "string") return value.isWellFormed();
  if (typeof value !== "object" || value === null) return true;
  return Object.entries(value).every(([key, inner]) => key.isWellFormed() && isWellFormed(inner));
}
