import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Keeper } from "../../../web/chat/keeper.ts";
import { newConversation, type Conversation } from "../../../web/chat/model.ts";
import { verdictOfRefusal, type Refusal } from "../../../web/chat/verdict.ts";
import { until } from "../../support/until.ts";

let clock = 0;
const conversation = (content: string, id = "aaaaaaaa"): Conversation => ({
  ...newConversation("coder"),
  id,
  title: "talk",
  messages: [{ role: "user", content }],
  updated_at: `t${++clock}`,
});
const said = ({ messages }: Conversation): string => messages.map(({ content }) => content).join(" ");

class Refused extends Error {
  readonly refusal: Refusal;
  constructor(refusal: Partial<Refusal>) {
    super("refused");
    this.refusal = { status: 500, code: "unknown", ...refusal };
  }
}

/** A DOUBLE of the server: it keeps one text per id, refuses as it is told to, and writes down every request. */
function serverDouble() {
  const kept = new Map<string, Conversation>();
  const calls: string[] = [];
  const timers: { readonly task: () => void; readonly ms: number; isCancelled: boolean }[] = [];
  const copies: string[] = [];
  /** What the next requests meet; `lost`: the server does it, and its answer is lost. */
  const next: (Refused | "lost" | Promise<void>)[] = [];
  const meet = async (): Promise<Refused | "lost" | undefined> => {
    const first = next.shift();
    if (first instanceof Promise) await first;
    return first instanceof Promise ? undefined : first;
  };
  const keeper = new Keeper({
    put: async (each, basedOn) => {
      calls.push(`PUT ${each.id} ${said(each)} on ${basedOn}`);
      const met = await meet();
      if (met instanceof Refused) throw met;
      const at = kept.get(each.id)?.updated_at;
      if (at === undefined && basedOn !== "none")
        throw new Refused({ status: 409, code: "config.changed", details: { updated_at: null } });
      if (at !== undefined && at !== basedOn && at !== each.updated_at)
        throw new Refused({ status: 409, code: "config.changed", details: { updated_at: at } });
      kept.set(each.id, each);
      if (met === "lost") throw new Refused({ status: 0, code: "unreachable" });
    },
    read: async (id) => {
      calls.push(`GET ${id}`);
      await meet();
      return kept.get(id) ?? assert.fail(`nothing is kept as ${id}`);
    },
    remove: async (id) => {
      calls.push(`DELETE ${id}`);
      const met = await meet();
      if (met instanceof Refused) throw met;
      kept.delete(id);
    },
    verdictOf: (error) => (error instanceof Refused ? verdictOfRefusal(error.refusal) : assert.fail(String(error))),
    later: (task, ms) => {
      const timer = { task, ms, isCancelled: false };
      timers.push(timer);
      return () => (timer.isCancelled = true);
    },
    newId: () => "bbbbbbbb",
    onChange: () => undefined,
    onCopy: (id, copy) => copies.push(`${id} → ${copy.id} ${copy.title}`),
  });
  const running = (): number[] => timers.filter(({ isCancelled }) => !isCancelled).map(({ ms }) => ms);
  return { keeper, kept, calls, timers, running, copies, next };
}

const always = (): boolean => true;

describe("the conversations of the chat page", () => {
  it("are sent again after a growing time where the server refuses them, and at the time that it says", async () => {
    const { keeper, kept, calls, timers, running, next } = serverDouble();
    next.push(
      new Refused({ status: 507 }),
      new Refused({ status: 401 }),
      new Refused({ status: 429, retryAfterSeconds: 90 }),
    );
    await keeper.keep(conversation("hello"));
    for (const [at, ms] of [1000, 2000, 90_000].entries()) {
      assert.equal(running().at(-1), ms);
      assert.equal(keeper.unkept.length, 1);
      assert.ok(keeper.unkept[0]?.error instanceof Refused);
      timers[at]?.task();
      await until("it is answered", async () => calls.length === at + 2 && (running().at(-1) ?? 0) !== ms);
    }
    assert.equal(said(kept.get("aaaaaaaa") ?? conversation("")), "hello");
    assert.deepEqual(keeper.unkept, []);
    assert.deepEqual(running(), []);
  });

  it("are each sent again, also after one that is refused; what is refused each time waits for a person", async () => {
    const { keeper, kept, running, next } = serverDouble();
    next.push(new Refused({ status: 413 }), new Refused({ status: 0 }));
    await keeper.keep(conversation("too large"));
    await keeper.keep(conversation("hello", "cccccccc"));
    assert.deepEqual(running(), [1000]);
    next.push(new Refused({ status: 413 }));
    await keeper.tryAgain();
    assert.deepEqual([...kept.keys()], ["cccccccc"]);
    assert.deepEqual(
      keeper.unkept.map(({ isFinal }) => isFinal),
      [true],
    );
    // A deletion makes room.
    await keeper.remove("cccccccc");
    await keeper.tryAgain();
    assert.deepEqual([...kept.keys()], ["aaaaaaaa"]);
  });

  it("stand beside what another device has kept meanwhile: neither text is lost", async () => {
    const { keeper, kept, calls, copies, next } = serverDouble();
    await keeper.keep(conversation("first"));
    kept.set("aaaaaaaa", { ...conversation("of another device"), updated_at: "other" });
    const { promise, resolve } = Promise.withResolvers<void>();
    next.push(promise);
    const earlier = keeper.keep(conversation("question"));
    const later = keeper.keep(conversation("question and answer"));
    resolve();
    await Promise.all([earlier, later]);
    assert.deepEqual(copies, ["aaaaaaaa → bbbbbbbb talk (copy)"]);
    assert.equal(said(kept.get("aaaaaaaa") ?? conversation("")), "of another device");
    assert.equal(said(kept.get("bbbbbbbb") ?? conversation("")), "question and answer");
    assert.equal(calls.at(-1), "PUT bbbbbbbb question and answer on none");
    assert.deepEqual(keeper.unkept, []);
    // The other text is continued once it was opened.
    const opened = await keeper.open("aaaaaaaa", always);
    await keeper.keep(opened ?? conversation(""));
    assert.equal(calls.at(-1), "PUT aaaaaaaa of another device on other");
    assert.equal(copies.length, 1);
  });

  it("that another device has deleted come back only where the person of this page wants that", async () => {
    const { keeper, kept, running } = serverDouble();
    await keeper.keep(conversation("question"));
    kept.clear();
    await keeper.keep(conversation("question and answer"));
    await keeper.keep(conversation("question, answer, question"));
    await keeper.tryAgain();
    assert.deepEqual([...kept.keys()], []);
    assert.deepEqual(running(), []);
    assert.deepEqual(
      keeper.unkept.map(({ isDeleted }) => isDeleted),
      [true],
    );
    await keeper.keepAgain("aaaaaaaa");
    assert.equal(said(kept.get("aaaaaaaa") ?? conversation("")), "question, answer, question");
    await keeper.keep(conversation("and so on"));
    assert.deepEqual([said(kept.get("aaaaaaaa") ?? conversation("")), keeper.unkept], ["and so on", []]);
  });

  it("are no copy of their own text whose answer was lost", async () => {
    const { keeper, kept, calls, copies, next } = serverDouble();
    next.push("lost");
    const question = conversation("question");
    await keeper.keep(question);
    await keeper.keep(conversation("question and answer"));
    assert.deepEqual(copies, []);
    assert.equal(said(kept.get("aaaaaaaa") ?? conversation("")), "question and answer");
    assert.equal(calls.at(-1), `PUT aaaaaaaa question and answer on ${question.updated_at}`);
  });

  it("are deleted after the PUT that runs, and do not come back with the next", async () => {
    const { keeper, kept, calls, next } = serverDouble();
    const { promise, resolve } = Promise.withResolvers<void>();
    next.push(promise);
    const first = keeper.keep(conversation("question"));
    await until("the first PUT runs", async () => calls.length === 1);
    const removed = keeper.remove("aaaaaaaa");
    const second = keeper.keep(conversation("question and answer"));
    assert.equal(calls.length, 1);
    resolve();
    await Promise.all([first, removed, second]);
    await keeper.keep(conversation("question and answer"));
    assert.deepEqual(calls, ["PUT aaaaaaaa question on none", "DELETE aaaaaaaa"]);
    assert.deepEqual([...kept.keys()], []);
    assert.deepEqual(keeper.unkept, []);
  });

  it("stay where a deletion fails", async () => {
    const { keeper, kept, next } = serverDouble();
    await keeper.keep(conversation("hello"));
    next.push(new Refused({ status: 0 }));
    await assert.rejects(keeper.remove("aaaaaaaa"));
    await keeper.keep(conversation("hello again"));
    assert.equal(said(kept.get("aaaaaaaa") ?? conversation("")), "hello again");
  });

  it("are opened with what is written meanwhile, and base nothing on a text that nobody looks at", async () => {
    const { keeper, kept, calls, copies, next } = serverDouble();
    await keeper.keep(conversation("first"));
    kept.set("aaaaaaaa", { ...conversation("of another device"), updated_at: "other" });
    assert.equal(await keeper.open("aaaaaaaa", () => false), undefined);
    await keeper.keep(conversation("mine"));
    assert.equal(copies.length, 1);
    const { promise, resolve } = Promise.withResolvers<void>();
    next.push(promise);
    const opened = keeper.open("aaaaaaaa", always);
    const written = keeper.keep(conversation("written meanwhile"));
    resolve();
    assert.equal(said((await opened) ?? conversation("")), "written meanwhile");
    await written;
    assert.equal(said(kept.get("aaaaaaaa") ?? conversation("")), "of another device");
    assert.ok(calls.includes("GET aaaaaaaa"));
  });
});
