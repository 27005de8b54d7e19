import { request as httpRequest } from "node:http";
import { createParser } from "eventsource-parser";
import { until } from "../../support/until.ts";

export interface ReadEvent {
  readonly id: string | undefined;
  readonly event: string;
  readonly data: unknown;
}

export interface EventReader extends Disposable {
  readonly status: number;
  readonly events: readonly ReadEvent[];
  readonly comments: () => number;
  readonly isOver: () => boolean;
  /** The first event that fits, waited for. */
  find(event: string, fits?: (data: unknown) => boolean): Promise<ReadEvent>;
  /** Stops reading, or goes on. */
  pause(): void;
  resume(): void;
}

/** Follows `/api/events` or logs as a client does. */
export async function followEvents(
  url: string,
  path = "/api/events",
  headers: Readonly<Record<string, string>> = {},
): Promise<EventReader> {
  const events: ReadEvent[] = [];
  let comments = 0;
  let isOver = false;
  const parser = createParser({
    onEvent: ({ id, event = "message", data }) => events.push({ id, event, data: JSON.parse(data) }),
    onComment: () => (comments += 1),
  });
  const { promise, resolve, reject } = Promise.withResolvers<import("node:http").IncomingMessage>();
  const request = httpRequest(new URL(path, url), { headers, agent: false }, resolve).once("error", reject);
  request.end();
  const response = await promise;
  response.setEncoding("utf8").on("data", (text: string) => parser.feed(text));
  response.once("close", () => (isOver = true));
  response.once("error", () => (isOver = true));
  return {
    status: response.statusCode ?? 0,
    events,
    comments: () => comments,
    isOver: () => isOver,
    find: async (event, fits = () => true) =>
      await until(`an event ${event}`, () => events.find((each) => each.event === event && fits(each.data))),
    pause: () => void response.pause(),
    resume: () => void response.resume(),
    [Symbol.dispose]: () => void request.destroy(),
  };
}
