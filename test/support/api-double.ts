import type { ServerResponse } from "node:http";
import { text as textOf } from "node:stream/consumers";
import { serve } from "./listen.ts";

export interface ApiDouble extends AsyncDisposable {
  readonly url: string;
  /** Every request, as `METHOD /path`, in order. */
  readonly asked: readonly string[];
  readonly bodies: readonly string[];
  readonly authorizations: readonly (string | undefined)[];
  /** Answers a path from now on. */
  answer(path: string, answer: Answer): void;
}

/** JSON with status 200, or whatever a function writes. */
export type Answer = object | ((response: ServerResponse) => void);

/** A small HTTP server that answers as the management API does; a path it does not know is `slot.not_found`. */
export async function apiDouble(answers: Readonly<Record<string, Answer>>): Promise<ApiDouble> {
  const known = new Map(Object.entries(answers));
  const asked: string[] = [];
  const bodies: string[] = [];
  const authorizations: (string | undefined)[] = [];
  const served = await serve((request, response) => {
    void textOf(request).then((body) => {
      asked.push(`${request.method ?? ""} ${request.url ?? ""}`);
      bodies.push(body);
      authorizations.push(request.headers.authorization);
      const answer = known.get(request.url ?? "");
      if (typeof answer === "function") {
        answer(response);
        return;
      }
      response.writeHead(answer === undefined ? 404 : 200, { "content-type": "application/json" });
      response.end(JSON.stringify(answer ?? failure("slot.not_found", "there is no such slot")));
    });
  });
  return {
    ...served,
    asked,
    bodies,
    authorizations,
    answer: (path, answer) => void known.set(path, answer),
  };
}

export function failure(code: string, message: string): object {
  return { error: { code, message, type: "invalid_request_error" } };
}

/** An event stream of these data, ended cleanly. */
export function stream(...data: readonly string[]): Answer {
  return (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const each of data) response.write(`data: ${each}\n\n`);
    response.end();
  };
}
