import { createServer } from "node:net";

/** `count` ports in a row on which nobody listens now, far from Berth's own range. */
export async function freePorts(count: number): Promise<{ first: number; last: number }> {
  for (let attempt = 0; attempt < 50; attempt++) {
    const first = 20_000 + Math.floor(Math.random() * 12_000);
    const checks = await Promise.all(Array.from({ length: count }, (_, index) => isFree(first + index)));
    if (checks.every(Boolean)) return { first, last: first + count - 1 };
  }
  throw new Error(`there are no ${count} free ports in a row`);
}

async function isFree(port: number): Promise<boolean> {
  return await new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}
