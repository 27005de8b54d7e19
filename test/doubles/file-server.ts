import { createHash } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { serve } from "../support/listen.ts";

export interface ServedFile {
  body: Buffer;
  /** With its quotes; absent: none is sent. */
  etag?: string;
}

export interface Asked {
  readonly method: string;
  readonly path: string;
  readonly range: string | undefined;
  readonly authorization: string | undefined;
}

/** Answers in its own way, or calls `serve` for what a good server does; what it returns goes by. */
export type Behaviour = (
  request: IncomingMessage,
  response: ServerResponse,
  serve: () => void,
  file: ServedFile | undefined,
) => unknown;

export interface FileServer extends AsyncDisposable {
  readonly url: string;
  readonly files: Map<string, ServedFile>;
  readonly asked: Asked[];
  behave: Behaviour;
}

/** A real HTTP server of files with ranges and ETags. What it does wrong is the test's to say. */
export async function startFileServer(files: Readonly<Record<string, ServedFile>> = {}): Promise<FileServer> {
  const served = new Map(Object.entries(files));
  const asked: Asked[] = [];
  const server = await serve((request, response) => {
    const { pathname } = new URL(request.url ?? "/", "http://localhost");
    const { range, authorization } = request.headers;
    asked.push({ method: request.method ?? "", path: pathname, range, authorization });
    const file = served.get(pathname);
    void double.behave(request, response, () => serveFile(request, response, served.get(pathname)), file);
  });
  const double: FileServer = {
    ...server,
    files: served,
    asked,
    behave: (_request, _response, answer) => answer(),
  };
  return double;
}

/** The part of the body that the request asks for: `[from, to)`. */
export function rangeOf(request: IncomingMessage, body: Buffer): readonly [number, number] | undefined {
  const found = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "");
  if (found === null) return undefined;
  return [Number(found[1]), Math.min(Number(found[2]) + 1, body.length)];
}

export function serveFile(request: IncomingMessage, response: ServerResponse, file: ServedFile | undefined): void {
  if (file === undefined) {
    response.writeHead(404).end();
    return;
  }
  const { body, etag } = file;
  const common = { "accept-ranges": "bytes", ...(etag === undefined ? {} : { etag }) };
  const range = rangeOf(request, body);
  const [from, to] = range ?? [0, body.length];
  if (range !== undefined && from >= body.length) {
    response.writeHead(416, { ...common, "content-range": `bytes */${body.length}` }).end();
    return;
  }
  response.writeHead(range === undefined ? 200 : 206, {
    ...common,
    "content-length": to - from,
    ...(range === undefined ? {} : { "content-range": `bytes ${from}-${to - 1}/${body.length}` }),
  });
  response.end(request.method === "HEAD" ? undefined : body.subarray(from, to));
}

export function sha256Of(body: Buffer): string {
  return createHash("sha256").update(body).digest("hex");
}

/** The answer of a hub to HEAD for a large file: a redirect with the checksum. */
export function linkTo(response: ServerResponse, location: string, body: Buffer, commit = "c".repeat(40)): void {
  response
    .writeHead(302, {
      location,
      "x-linked-etag": `"${sha256Of(body)}"`,
      "x-linked-size": body.length,
      "x-repo-commit": commit,
    })
    .end();
}
