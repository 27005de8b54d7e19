import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { mock } from "node:test";
import { pino } from "pino";
import { AccessLog } from "../../../src/gateway/telemetry/access-log.ts";
import { Admission } from "../../../src/gateway/slots/admission.ts";
import { BufferBudget, type Charge } from "../../../src/gateway/slots/budget.ts";
import type { PublishedSlot } from "../../../src/api/status.ts";
import type { Principal } from "../../../src/gateway/proxy/call.ts";
import { ModelProxy } from "../../../src/gateway/proxy/handle.ts";
import { CacheSync } from "../../../src/gateway/routing/cache-sync.ts";
import { defaultAgainAfterMs } from "../../../src/gateway/proxy/slot-dispatch.ts";
import { buildIndex, type ResolutionIndex } from "../../../src/gateway/routing/index.ts";
import { GatewayMetrics } from "../../../src/gateway/telemetry/metrics.ts";
import { plainErrors } from "../../../src/gateway/http/error-form.ts";
import { defaultCommentTimes } from "../../../src/gateway/proxy/wait-comments.ts";
import { Traffic } from "../../../src/gateway/slots/traffic.ts";
import { Upstreams } from "../../../src/gateway/providers/upstreams.ts";
import type { Destination, BackendRequest, V1Request, V1Route } from "../../../src/gateway/v1/route.ts";
import { ExchangeError, type Exchange, type ExchangeEvents } from "../../../src/lib/exchange.ts";
import type { OperatorLiveness } from "../../../src/store/store.ts";
import { ClientResponse, clientRequest } from "../../doubles/client-response.ts";
import { publishedSlot, type SlotSketch } from "../../support/gateway.ts";

/** What an engine does next with a call. */
export const deeds = ["answer", "finish", "refuse", "mistake", "garble", "miss", "break"] as const;
export type Deed = (typeof deeds)[number];

export interface Wish {
  readonly slot: string;
  readonly word: string;
  readonly scope: string;
  readonly client: string;
  readonly isStream: boolean;
}

let calls = 0;

/** A RECORDER of one call to an engine, which does what the test says. */
export class EngineCall implements Exchange {
  readonly id = `call${(calls += 1)}`;
  readonly backendRequest: RecorderLeg;
  readonly #events: ExchangeEvents;
  /** What it has sent, apart from the head. */
  readonly sent: string[] = [];
  hasBegun = false;
  isAnswer = false;
  /** It answered to the end, failed, or was aborted. */
  isOver = false;
  isWhole = false;
  #isPaused = false;
  /** Events that were read already when it was asked to wait, and come all the same. */
  #underWay = 0;

  constructor(backendRequest: RecorderLeg, events: ExchangeEvents) {
    this.backendRequest = backendRequest;
    this.#events = events;
  }

  pause(): void {
    this.#isPaused = true;
    this.#underWay = 3;
  }

  resume(): void {
    this.#isPaused = false;
  }

  abort(): void {
    this.isOver = true;
  }

  do(deed: Deed): void {
    const isStream = this.backendRequest.arrival.wish.isStream;
    if (this.isOver) return;
    if (this.#isPaused && (deed !== "answer" || (this.#underWay -= 1) < 0)) return;
    if (deed === "answer" && isStream) {
      if (this.hasBegun) this.#send(`data: {"by":"${this.id}","nth":${this.sent.length},"pad":"${pad}"}\n\n`);
      else this.#begin(200, "text/event-stream");
    } else if (deed === "finish" && this.hasBegun) {
      this.isWhole = true;
      this.#send("data: [DONE]\n\n");
      this.#end();
    } else if (deed === "break") this.#fail("broken");
    else if (deed === "garble") {
      if (!this.hasBegun) this.#begin(200, "text/event-stream");
      // Only what comes first is looked at: later it is an event without an end.
      this.#send(this.sent.length === 0 ? "garbage\n" : 'data: {"error":{"message":"I am broken"}}\n\n', true);
    } else if (this.hasBegun) return;
    else if (deed === "miss") this.#fail("connect");
    else if (deed === "refuse") this.#tell(500, '{"error":{"message":"no"}}', false);
    else if (deed === "mistake" || deed === "answer") this.#tell(200, `{"by":"${this.id}"}`, true);
  }

  #tell(status: number, body: string, isWhole: boolean): void {
    this.isWhole = isWhole;
    this.#begin(status, "application/json");
    this.#send(body);
    this.#end();
  }

  #begin(status: number, contentType: string): void {
    this.hasBegun = true;
    this.isAnswer = status === 200;
    this.#events.onHead({ status, contentType, contentLength: undefined, isKeptAlive: true });
  }

  #send(text: string, isGarbage = false): void {
    if (!isGarbage) this.sent.push(text);
    this.#events.onData(Buffer.from(text));
  }

  #end(): void {
    // As a connection: nothing follows what was aborted.
    if (this.isOver) return;
    this.isOver = true;
    this.#events.onEnd();
  }

  #fail(phase: "connect" | "broken"): void {
    this.isOver = true;
    this.#events.onError(new ExchangeError(phase, phase));
  }
}

class RecorderLeg implements BackendRequest {
  readonly method = "POST";
  readonly path = "/";
  readonly accept = "*/*";
  readonly capability = "chat";
  readonly format = {};
  readonly served = "engine-model";
  readonly arrival: Arrival;
  readonly calls: EngineCall[] = [];

  constructor(arrival: Arrival) {
    this.arrival = arrival;
  }

  exchange(_to: Destination, events: ExchangeEvents): Exchange {
    const call = new EngineCall(this, events);
    this.calls.push(call);
    return call;
  }
}

/** Streams that must be one call, or one request that is alone. The first member's backendRequest is asked. */
class Group {
  readonly key: string;
  readonly isShared: boolean;
  readonly members: Arrival[] = [];

  constructor(key: string, isShared: boolean) {
    this.key = key;
    this.isShared = isShared;
  }

  get slot(): string {
    return this.members[0]?.wish.slot ?? "";
  }

  get call(): EngineCall | undefined {
    return this.members[0]?.backendRequest.calls.at(-1);
  }

  get isWanted(): boolean {
    return this.members.some(({ response }) => !response.isOver);
  }

  get isJoinable(): boolean {
    return this.isShared && this.isWanted && this.call?.hasBegun !== true;
  }

  /** Not yet sent, or not received by an engine that may come again. */
  get isWaiting(): boolean {
    return this.isWanted && (this.call === undefined || (this.call.isOver && !this.call.hasBegun));
  }
}

/** One client's request, and what became of it. */
export class Arrival {
  readonly wish: Wish;
  readonly response = new ClientResponse();
  /** Its body is kept no more. */
  isDropped = false;
  readonly backendRequest: RecorderLeg;
  /** Alone in it: shares with nobody. */
  readonly group: Group;

  constructor(wish: Wish, group: Group) {
    this.wish = wish;
    this.group = group;
    this.backendRequest = new RecorderLeg(this);
    group.members.push(this);
  }

  /** It has had what its call gave, from the start and in order, and has been told of whatever ended it early. */
  check(): void {
    const { response, group } = this;
    assert.deepEqual(response.faults, [], "answered once");
    if (!response.headersSent || response.destroyed) return;
    const text = response.text.replaceAll(/^: .*\n\n/gm, "");
    if (response.statusCode !== 200) {
      if (response.isOver) assert.match(text, /^\{"error":\{"code":"[a-z._]+".*\}\}$/);
      return;
    }
    const sent = group.call?.sent.join("") ?? "";
    const refusedAt = text.search(/data: \{"error":\{"code":"[a-z._]+".*\}\}\n\n$/);
    assert.ok(sent.startsWith(refusedAt < 0 ? text : text.slice(0, refusedAt)), `${text} is not of ${sent}`);
    if (response.isOver && refusedAt < 0) {
      assert.equal(group.call?.isWhole, true);
      assert.equal(text, sent, "whole");
    }
  }
}

export const limits = { max: 2, queue: 2 } as const;
const spec: SlotSketch["spec"] = { concurrency: limits };
/** What an operator may say of a slot. */
export const sketches = {
  there: { port: 8081, spec },
  away: { state: "starting", spec },
  failed: { state: "error", spec },
  disabled: { spec: { ...spec, enabled: false } },
} as const satisfies Record<string, SlotSketch>;
export type SketchName = keyof typeof sketches;

const holdMs = 10_000;
/** Padding of events: with a few of them a slow reader is behind by what may be kept. */
const pad = "x".repeat(50);

const published = new Map<string, PublishedSlot>();

function publishedOnce(slot: string, sketch: SketchName): PublishedSlot {
  const key = `${slot} ${sketch}`;
  const known = published.get(key) ?? publishedSlot(slot, sketches[sketch], 1);
  published.set(key, known);
  return known;
}

const bodyOf = ({ slot, word }: Wish): Buffer => Buffer.from(`${slot} ${word}`);

/** Costs too much to be made for every run; nothing here looks at it. */
let metrics: GatewayMetrics | undefined;

/**
 * The gateway's own proxy with all that stands behind it, under a clock that the test moves: requests come from
 * doubles of clients, and engines are recorders. The operator is the test.
 */
export class ProxySite {
  readonly arrivals: Arrival[] = [];
  /** An operator is there, and has not looked at every engine yet. */
  isUnsettled = false;
  /** What comes before the end of each body. */
  whileReading: (charge: Charge) => Promise<void> = async () => undefined;
  readonly proxy: ModelProxy;
  readonly #admission: Admission;
  readonly #traffic = new Traffic(() => undefined);
  readonly #budget: BufferBudget;
  readonly #limitBytes: number;
  readonly #published = new Map<string, SketchName>();
  readonly #asking = new Map<IncomingMessage, Arrival>();
  readonly #route: V1Route;
  #index: ResolutionIndex;

  constructor(slots: Readonly<Record<string, SketchName>>, limitBytes: number) {
    mock.timers.reset();
    mock.timers.enable({ apis: ["setTimeout", "Date"], now: 1_000_000 });
    for (const [name, sketch] of Object.entries(slots)) this.#published.set(name, sketch);
    this.#index = this.#build();
    this.#limitBytes = limitBytes;
    this.#budget = new BufferBudget(limitBytes);
    const index = () => this.#index;
    const traffic = this.#traffic;
    const liveness = (): OperatorLiveness => (this.isUnsettled ? "live" : "absent");
    this.#admission = new Admission({
      index,
      operator: liveness,
      isSettled: () => !this.isUnsettled,
      holdMs,
      now: () => Date.now(),
    });
    const published = { operator: () => undefined, operatorLiveness: liveness };
    const inFlight = (slot: string): number => traffic.inFlight(slot);
    const cacheSync = new CacheSync({ index, published, holdMs, inFlight });
    const upstreams = { get: () => undefined };
    metrics ??= new GatewayMetrics({ traffic, admission: this.#admission, index, upstreams, unresolved: () => 0 });
    this.proxy = new ModelProxy({
      index,
      cacheSync,
      admission: this.#admission,
      upstreams: new Upstreams({ env: {}, onProblem: () => undefined }),
      traffic,
      budget: this.#budget,
      metrics,
      log: new AccessLog({ log: pino({ level: "silent" }), lines: undefined }),
      bodyLimitBytes: 1000,
      commentTimes: defaultCommentTimes,
      againAfterMs: defaultAgainAfterMs,
      isDraining: () => false,
      identify: (request): Principal => ({ ...this.#visitOf(request).wish, owner: "" }),
    });
    this.#route = {
      method: "POST",
      path: "/v1/chat/completions",
      about: { summary: "", takes: "application/json", gives: "application/json" },
      aliasPaths: [],
      errors: plainErrors,
      read: async (request, { charge }): Promise<V1Request> => {
        const arrival = this.#visitOf(request);
        const { wish, backendRequest } = arrival;
        await this.whileReading(charge);
        charge.take(wish.word.length);
        return {
          model: wish.slot,
          isStream: wish.isStream,
          body: bodyOf(wish),
          forSlot: () => backendRequest,
          drop: () => void (arrival.isDropped = true),
        };
      },
    };
  }

  /** Calls that an engine works on. */
  get live(): readonly EngineCall[] {
    return this.arrivals.flatMap(({ backendRequest }) => backendRequest.calls.filter(({ isOver }) => !isOver));
  }

  async arrive(wish: Wish): Promise<void> {
    const arrival = new Arrival(wish, this.#groupFor(wish));
    this.arrivals.push(arrival);
    const request = clientRequest();
    this.#asking.set(request, arrival);
    void this.proxy.handle(this.#route, request, arrival.response, "id");
    await this.settle();
  }

  async publish(slot: string, sketch: SketchName): Promise<void> {
    this.#published.set(slot, sketch);
    this.#index = this.#build();
    this.#admission.refresh(slot);
    await this.settle();
  }

  async wait(ms: number): Promise<void> {
    mock.timers.tick(ms);
    await this.settle();
  }

  /** All that can happen without time passing has happened. */
  async settle(): Promise<void> {
    for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
  }

  /** What must be true at any time. */
  check(): void {
    const { live, arrivals, proxy } = this;
    for (const arrival of arrivals) arrival.check();
    const groups = [...new Set(arrivals.map(({ group }) => group))];
    for (const group of groups) {
      const own = live.filter(({ backendRequest }) => backendRequest.arrival.group === group);
      assert.ok(own.length <= 1, "at most one call for those who share");
      for (const { backendRequest } of group.members.slice(1))
        assert.deepEqual(backendRequest.calls, [], "one that joined asks nobody");
      for (const { isDropped, response } of group.members.slice(1))
        assert.ok(isDropped || response.isOver, "the body of one that joined is not kept");
      if (group.call?.isAnswer === true && group.isWanted)
        assert.ok(group.members[0]?.isDropped, "a body is kept until its answer begins");
      assert.ok(own.length === 0 || group.isWanted, "no engine works for nobody");
    }
    for (const slot of this.#published.keys()) {
      const inside = live.filter(({ backendRequest }) => backendRequest.arrival.wish.slot === slot).length;
      const waiting = groups.filter((group) => group.slot === slot && group.isWaiting).length;
      const { queue, backends } = this.#admission.waitQueueOf(slot, "main");
      const { held, inFlight } = this.#traffic.of(slot);
      const taken = [...backends.all()].reduce((sum, backend) => sum + backend.inFlight, 0);
      assert.deepEqual([taken, inFlight], [inside, inside], "what an engine works on is counted");
      assert.equal(queue.inside, backends.inFlight, "what counts is at an engine that is ready");
      assert.equal(held, waiting, "who is not served waits, and is demand");
      assert.ok(queue.inside <= limits.max && queue.waiting <= limits.max + limits.queue, "bounds hold");
      assert.ok(queue.gate !== "open" || queue.waiting === 0 || inside >= limits.max, "nobody waits beside room");
    }
    assert.ok(this.#budget.usedBytes <= this.#limitBytes, "no more is kept than may be");
    const sharing = arrivals.filter(({ group, response }) => group.isShared && !response.isOver);
    assert.equal(proxy.sharedReaders, sharing.length, "whoever shares is counted until it has all of it");
    assert.equal(proxy.underWay, arrivals.filter(({ response }) => !response.isClosed).length);
  }

  /** Everything is over, and nothing is left of it. */
  checkEnd(): void {
    this.check();
    assert.ok(
      this.arrivals.every(({ response }) => response.isOver),
      "no caller is forgotten",
    );
    assert.deepEqual([this.#budget.usedBytes, this.proxy.sharedReaders, this.proxy.underWay], [0, 0, 0]);
  }

  #build(): ResolutionIndex {
    const slots = [...this.#published].map(([name, sketch]) => publishedOnce(name, sketch));
    return buildIndex(
      { slots: () => slots, registry: () => ({ schema: 1, models: [], upstreams: [], resources: [] }) },
      new Map(),
    );
  }

  #visitOf(request: IncomingMessage): Arrival {
    const arrival = this.#asking.get(request);
    if (arrival === undefined) throw new Error("nobody asked");
    return arrival;
  }

  /** Those with whom it shares: a stream that its slot cannot answer now joins what has not begun to come. */
  #groupFor(wish: Wish): Group {
    const key = `${wish.slot} ${wish.word} ${wish.scope}`;
    const mayShare = wish.isStream && this.#published.get(wish.slot) !== "there";
    const found = this.arrivals.find(({ group }) => mayShare && group.key === key && group.isJoinable);
    return found?.group ?? new Group(key, mayShare);
  }
}
