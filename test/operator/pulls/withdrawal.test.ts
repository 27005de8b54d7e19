import assert from "node:assert/strict";
import { it } from "node:test";
import type { ModelRecord } from "../../../src/api/model.ts";
import { until } from "../../support/until.ts";
import { Site } from "../site.ts";
import { pullSite } from "./site.ts";

function far(ref: string): ModelRecord {
  const files = [{ source: `hf://owner/repo/${ref}.gguf` }];
  const missing = { state: "missing", reason: "NotFetched", message: `${ref} is not on this machine yet` } as const;
  const found = { ref, origin: "manifest", source: files[0]?.source ?? "", created: 0 } as const;
  return { ...found, files: [], capabilities: ["chat"], ...missing, fetch: { files } };
}

/** An operator whose slot p fetches the model a. */
async function fetching() {
  await using stack = new AsyncDisposableStack();
  const at = stack.use(await pullSite());
  const site = stack.use(new Site());
  site.pulls = at.pulls;
  for (const ref of ["a", "b", "c"]) site.models.set(ref, far(ref));
  await site.start();
  site.source.save("p", { model: { default: "a" } });
  const fetched = async (...refs: string[]): Promise<boolean> =>
    await until(
      `the models that are fetched are: ${refs.join(", ")}`,
      async () => {
        await site.advance(5);
        return at.refs().join() === refs.join();
      },
      20_000,
    );
  await fetched("a");
  const owned = stack.move();
  return { at, site, fetched, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

const changes: readonly (readonly [string, (site: Site) => Promise<unknown> | void])[] = [
  ["whose manifest names another model", (site) => site.source.save("p", { model: { default: "b" } })],
  ["that a request has swapped", async (site) => await site.request("p", "swap-model", { model: "b", specModel: "a" })],
];
for (const [what, change] of changes)
  it(`a slot ${what} ends the pull of the model before`, async () => {
    await using operator = await fetching();
    await change(operator.site);
    await operator.fetched("b");
  });

it("a slot that is disabled or deleted ends its pull, and goes on with it where it is wanted again", async () => {
  await using operator = await fetching();
  const { site, fetched } = operator;
  site.source.save("p", { enabled: false, model: { default: "a" } });
  await fetched();
  site.source.save("p", { model: { default: "a" } });
  await fetched("a");
  site.source.delete("p");
  await fetched();
});

it("a pull that another slot wants goes on when one of them leaves", async () => {
  await using operator = await fetching();
  const { site, at, fetched } = operator;
  site.source.save("q", { model: { default: "a" } });
  await at.status("both slots are listed", ({ slots }) => slots?.join() === "p,q");
  site.source.save("p", { model: { default: "b" } });
  await fetched("a", "b");
  const [left] = at.pulls.list().filter(({ model }) => model.ref === "a");
  assert.deepEqual(left?.requesters, ["q"]);
});

it("a slot waits for the model that a person pulls and nobody knows yet, and does not join that pull", async () => {
  await using operator = await fetching();
  const { site, at, fetched } = operator;
  const requester = { requester: "Pull/1", attempt: "1" };
  const wanted = { ref: "new", files: [{ source: "hf://owner/repo/new.gguf" }], isOpen: true } as const;
  await at.pulls.join(wanted, requester);
  site.source.save("always", { model: { default: "new" } });
  site.source.save("later", { load: "onDemand", model: { default: "new" } });
  await fetched("a", "new");
  assert.deepEqual([site.state("always"), site.state("later")], ["pulling", "offline"]);
  const [pull] = at.pulls.list().filter(({ model }) => model.ref === "new");
  assert.deepEqual(pull?.requesters, ["Pull/1"]);
  if (pull !== undefined) await at.pulls.cancel(pull.model, "Pull/1");
  await site.advance(5);
  assert.equal(site.state("always"), "error");
  await at.pulls.join(wanted, requester);
  await fetched("a", "new");
  await site.advance(2);
  assert.equal(site.state("always"), "pulling");
});
