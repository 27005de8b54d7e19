import type { ServerResponse } from "node:http";
import { linkTo, rangeOf, serveFile, startFileServer, type FileServer } from "./file-server.ts";

export interface Hub extends AsyncDisposable {
  readonly server: FileServer;
  /** Every file stops after half of what is asked for. */
  hold(): void;
  /** Breaks the answers that are held; answers to come are whole. */
  release(): void;
}

/**
 * A DOUBLE of a hub, each repository of which has these files; they lie on a server of their own. `hold` stops each after
 * half of what is asked for.
 */
export async function startHub(files: Readonly<Record<string, Buffer>>): Promise<Hub> {
  const held: ServerResponse[] = [];
  const state = { isHeld: false };
  const listed = Object.entries(files).map(([path, { length: size }]) => ({ type: "file", path, size }));
  const server = await startFileServer();
  server.behave = (request, response) => {
    const name = new URL(request.url ?? "", "http://hub").pathname.split("/").at(-1) ?? "";
    if (request.url?.startsWith("/api/models/") === true) return response.end(JSON.stringify(listed));
    const body = files[name];
    if (body === undefined) return serveFile(request, response, undefined);
    if (request.url?.includes("/resolve/") === true) return linkTo(response, `/signed/${name}`, body);
    const range = rangeOf(request, body);
    if (range === undefined || !state.isHeld) return serveFile(request, response, { body });
    const [from, to] = range;
    response.writeHead(206, { "content-length": to - from, "content-range": `bytes ${from}-${to - 1}/${body.length}` });
    held.push(response);
    return response.write(body.subarray(from, from + Math.floor((to - from) / 2)));
  };
  return {
    server,
    hold: () => void (state.isHeld = true),
    release: () => {
      state.isHeld = false;
      for (const response of held.splice(0)) response.destroy();
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}
