import assert from "node:assert/strict";
import { startGateway, type SlotSketch } from "../../support/gateway.ts";
import { scriptedEngine, type Script } from "../../support/scripted-engine.ts";

/** An engine behind a gateway, as its slot primary: it speaks chat, or what the sketch says. */
export async function openSite(script?: Script, sketch: SlotSketch = {}) {
  await using stack = new AsyncDisposableStack();
  const engine = stack.use(await scriptedEngine(script));
  const gateway = stack.use(await startGateway({ slots: { primary: { port: engine.port, ...sketch } } }));
  const owned = stack.move();
  /** The path and the body of the last request that the engine got. */
  const asked = (): [path: string, body: Record<string, unknown>] => {
    const { path, body } = engine.seen.at(-1) ?? assert.fail("nothing was asked");
    return [path, JSON.parse(body)];
  };
  return { engine, gateway, asked, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
