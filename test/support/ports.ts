import { createServer } from "node:net";

/**
 * `count` ports in a row on which nobody listens now, far from Berth's own range and from those that the system gives
 * out. They stay this process's own among all tests until it ends, so that they may be listened on at any time later.
 */
export async function freePorts(count: number): Promise<{ first: number; last: number }> {
  for (let attempt = 0; attempt < 50; attempt++) {
    const first = 20_000 + Math.floor(Math.random() * 12_000);
    const ports = Array.from({ length: count }, (_, index) => first + index);
    await using claims = new AsyncDisposableStack();
    let areFree = true;
    for (const port of ports) {
      const release = await claimed(port);
      if (release !== undefined) claims.defer(release);
      areFree &&= release !== undefined && (await isFree(port));
    }
    if (!areFree) continue;
    claims.move();
    return { first, last: first + count - 1 };
  }
  throw new Error(`there are no ${count} free ports in a row`);
}

/** A name that one process at a time can hold, and that its end gives back: a socket in Linux' abstract namespace. */
async function claimed(port: number): Promise<(() => Promise<void>) | undefined> {
  const claim = createServer();
  const isOurs = await new Promise<boolean>((resolve) => {
    claim.once("error", () => resolve(false));
    claim.listen(`\0berth-test-port-${port}`, () => resolve(true));
  });
  if (!isOurs) return undefined;
  claim.unref();
  return async () => await new Promise((resolve) => claim.close(() => resolve()));
}

async function isFree(port: number): Promise<boolean> {
  return await new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}
