import { isUtf8 } from "node:buffer";
import type { FastifyInstance } from "fastify";
import { invalidRequest } from "../api/problems.ts";

/** Deeper than any manifest; what walks a value further down on the stack must not run out of it. */
const deepest = 64;
/** More than any manifest says; what looks at every value of a body must not hold up the others. */
const mostValues = 10_000;

/**
 * JSON is the only body that Fastify's routes take, with or without a body where none is needed: whatever a form of
 * another site can send without asking is 415. Keys that would reach a prototype are 400, and so is a body that no file
 * could hold: values nested too deep, bytes that are no characters, and halves of characters.
 */
export function takeJsonOnly(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser("error", "error");
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("application/json", { parseAs: "buffer" }, (request, body, done) => {
    // Clients name the type of a body that they then do not send.
    if (body.length === 0) {
      done(null, undefined);
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

/** Looked for before anything is parsed, and without a stack of its own. */
function excessOf(text: string): string | undefined {
  let depth = 0;
  let values = 1;
  let isInText = false;
  for (let at = 0; at < text.length; at += 1) {
    const letter = text[at];
    if (isInText) {
      if (letter === "\\") at += 1;
      else if (letter === '"') isInText = false;
    } else if (letter === '"') isInText = true;
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

function isWellFormed(value: unknown): boolean {
  if (typeof value === "string") return value.isWellFormed();
  if (typeof value !== "object" || value === null) return true;
  return Object.entries(value).every(([key, inner]) => key.isWellFormed() && isWellFormed(inner));
}
