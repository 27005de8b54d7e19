import assert from "node:assert/strict";
import type { Browser, Page } from "playwright-core";
import { z } from "zod";

const eventSchema = z.object({
  name: z.string(),
  pid: z.number(),
  tid: z.number(),
  /** Microseconds of the processor. */
  tdur: z.number().optional(),
  args: z.record(z.string(), z.unknown()).optional(),
});
const traceSchema = z.object({ traceEvents: z.array(eventSchema) });

export interface PageTasks {
  readonly longestMs: number;
  /** Tasks of more than 50 ms. */
  readonly over: number;
  readonly totalMs: number;
}

/** What the page's own thread does from now on. Its time of the processor alone counts: other work of the machine takes none of it. */
export async function watchTasks(browser: Browser, page: Page): Promise<{ end(): Promise<PageTasks> }> {
  await browser.startTracing(page, { categories: ["toplevel", "disabled-by-default-devtools.timeline", "__metadata"] });
  return {
    async end() {
      const { traceEvents } = traceSchema.parse(JSON.parse((await browser.stopTracing()).toString()));
      const isPages = (each: z.output<typeof eventSchema>): boolean =>
        each.name === "thread_name" && each.args?.["name"] === "CrRendererMain";
      const threads = new Set(traceEvents.filter(isPages).map(({ pid, tid }) => `${pid} ${tid}`));
      const times = traceEvents
        .filter(({ name, pid, tid }) => name.endsWith("RunTask") && threads.has(`${pid} ${tid}`))
        .map(({ tdur = 0 }) => tdur / 1000);
      assert.ok(times.filter((ms) => ms > 0).length > 100, `${times.length} tasks were seen`);
      return {
        longestMs: Math.max(...times),
        over: times.filter((ms) => ms > 50).length,
        totalMs: times.reduce((sum, ms) => sum + ms, 0),
      };
    },
  };
}
