import assert from "node:assert/strict";
import { createServer, type RequestListener, type ServerResponse } from "node:http";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { describe, it } from "node:test";
import { ApiError } from "../../../src/api/errors.ts";
import { responsesErrors } from "../../../src/gateway/protocols/responses-errors.ts";
import { Answer, NotAStream } from "../../../src/gateway/relay/answer.ts";
import type { ErrorForm } from "../../../src/gateway/http/error-form.ts";
import { rawExchange, type RawAnswer } from "../../support/raw-http.ts";
import { listen } from "../../support/listen.ts";
import { tempDir } from "../../support/temp-dir.ts";

const stream = { "content-type": "text/event-stream" };
const failure = new ApiError("dispatch.upstream_failed", { message: "it broke" });

/** What a client reads of an answer. */
async function read(
  act: (answer: Answer, response: ServerResponse) => void,
  logged: string[] = [],
  errors?: ErrorForm,
): Promise<RawAnswer> {
  const log = { failed: ({ code }: ApiError, id: string): void => void logged.push(`${id} ${code}`) };
  return exchange(
    (_request, response) => act(new Answer(response, "id-1", errors, { log }), response),
    "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
  );
}

/** Everything that comes until the connection is closed. */
async function exchange(listener: RequestListener, requests: string): Promise<RawAnswer> {
  const server = createServer(listener);
  const port = await listen(server);
  try {
    return await rawExchange(`http://127.0.0.1:${port}`, requests, { isEnough: () => false });
  } finally {
    await new Promise<void>((resolve) => server.close(() => resolve()));
  }
}

describe("Answer", () => {
  it("has the request's id, and forbids content sniffing and caching of streams", async () => {
    const { status, head } = await read((answer) => {
      answer.begin(200, stream);
      answer.end(Buffer.from("data: x\n\n"));
    });
    assert.equal(status, 200);
    for (const line of [
      "x-request-id: id-1",
      "x-content-type-options: nosniff",
      "cache-control: no-cache",
      "x-accel-buffering: no",
    ])
      assert.ok(head.includes(`\r\n${line}`), line);
  });

  it("numbers the event of a failure after the events of a numbered stream", async () => {
    const { body } = await read(
      (answer) => {
        answer.begin(200, stream);
        answer.write(Buffer.from("event: a\ndata: {}\n\nevent: b\n"));
        answer.write(Buffer.from('data: {"text":"\\ndata: "}\n\n: ping\n\n'));
        answer.refuse(failure);
      },
      [],
      responsesErrors,
    );
    assert.match(body, /event: error\ndata: .*"sequence_number":2,/);
  });

  it("is sent in chunks that end with it, also behind another answer on the same connection", async () => {
    const respond: RequestListener = (request, response) => {
      const answer = new Answer(response, "id-1");
      answer.beginEarly();
      answer.comment("wait");
      answer.begin(200, stream);
      answer.write(Buffer.from(`data: ${request.url}\n`));
      answer.write(Buffer.from("\n"));
      setImmediate(() => answer.end(request.url === "/1" ? Buffer.from("data: é\n\n") : undefined));
    };
    const requests = "GET /1 HTTP/1.1\r\nhost: x\r\n\r\nGET /2 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    const { body } = await exchange(respond, requests);
    const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`;
    const [first, second] = body.split(/HTTP\/1\.1 200 OK\r\n[^]*?\r\n\r\n/);
    const wait = chunk(": wait\n\n");
    assert.equal(first, `${wait}${chunk("data: /1\n\n")}${chunk("data: Ã©\n\n")}0\r\n\r\n`);
    assert.equal(second, `${wait}${chunk("data: /2\n\n")}0\r\n\r\n`);
  });

  it("reports a failure in an event of its own, also after an event that was cut off", async () => {
    for (const [written, between] of [
      [["data: x\n"], "\n"],
      [["event: x\r\ndata: y\r\n"], "\n"],
      [["data: x\n", "\n"], ""],
      [["data: x\r\n", "\r\n"], ""],
      [["data: x\r\n\r\n"], ""],
      [[": x\n\n"], ""],
      [[], ""],
    ] as const) {
      const { body } = await read((answer) => {
        answer.begin(200, stream);
        for (const lines of written) answer.write(Buffer.from(lines));
        answer.refuse(failure);
      });
      const all = written.join("");
      assert.equal(body.replace(/^[0-9a-f]+\r\n/, "").split("data: {")[0], all + between, JSON.stringify(all));
    }
  });

  it("closes the connection of cut bytes also where they wait behind another answer", async () => {
    const answers: Answer[] = [];
    const respond: RequestListener = (_request, response) => {
      const answer = new Answer(response, "id-1");
      answers.push(answer);
      answer.begin(200, { "content-type": "audio/wav" });
      answer.write(Buffer.from("abc"));
      const [first] = answers;
      if (first === answer) return;
      setImmediate(() => {
        answer.refuse(failure);
        first?.end();
      });
    };
    const { body } = await exchange(respond, "GET / HTTP/1.1\r\nhost: x\r\n\r\n".repeat(2));
    assert.equal(body, "3\r\nabc\r\n0\r\n\r\n");
  });

  it("resets the connection of cut bytes to HTTP/1.0, where its end would be the end of the answer", async () => {
    const server = createServer((_request, response) => {
      const answer = new Answer(response, "id-1");
      answer.begin(200, { "content-type": "audio/wav" });
      response.write("abc", () => answer.refuse(failure));
    });
    const client = connect(await listen(server), "127.0.0.1", () => client.write("GET / HTTP/1.0\r\n\r\n"));
    client.resume();
    const outcome = await new Promise((resolve) => {
      client.once("end", () => resolve("end"));
      client.once("error", ({ message }) => resolve(message));
    });
    await new Promise<void>((resolve) => server.close(() => resolve()));
    assert.equal(outcome, "read ECONNRESET");
  });

  it("keeps the first failure that it reported, and logs every one", async () => {
    const logged: string[] = [];
    let first: ApiError | undefined;
    const { status } = await read((answer) => {
      answer.refuse(new ApiError("slot.disabled"));
      answer.refuse(failure);
      first = answer.failure;
    }, logged);
    assert.deepEqual([status, first?.code], [503, "slot.disabled"]);
    assert.deepEqual(logged, ["id-1 slot.disabled", "id-1 dispatch.upstream_failed"]);
  });

  it("holds a client with a stream's head and comments, and then takes nothing but a stream", async () => {
    const { status, body } = await read((answer) => {
      answer.comment("too early");
      answer.beginEarly();
      answer.beginEarly();
      answer.comment("waiting");
      assert.throws(() => answer.begin(200, { "content-type": "application/json" }), NotAStream);
      answer.begin(200, stream);
      answer.end(Buffer.from("data: x\n\n"));
      answer.comment("too late");
      answer.beginEarly();
    });
    assert.equal(status, 200);
    assert.match(body, /: waiting\n\n[^]*data: x\n\n/);
    assert.doesNotMatch(body, /too/);
  });
});

/** Much more than the 200 KiB or so that the kernel keeps for a client that does not read. */
const manyBytes = Buffer.alloc(4 * 1024 * 1024, "x");

describe("an Answer whose client does not read", { concurrency: true }, () => {
  /**
   * A server with this listener, and a client that is paused and has sent these requests: by a Unix socket, since the kernel
   * keeps between 4 and 36 MiB for a TCP connection, by its own judgement.
   */
  async function open(listener: RequestListener, requests = "GET / HTTP/1.1\r\nhost: x\r\n\r\n") {
    const directory = await tempDir();
    const path = join(directory.path, "socket");
    const server = createServer(listener);
    await new Promise<void>((resolve) => server.listen(path, resolve));
    const socket = connect(path).on("error", () => undefined);
    socket.pause();
    socket.write(requests);
    const close = async (): Promise<void> => {
      socket.destroy();
      await new Promise<void>((resolve) => server.close(() => resolve()));
      await directory[Symbol.asyncDispose]();
    };
    return { socket, [Symbol.asyncDispose]: close };
  }
  /** Whether it was sent whole when its connection is closed or it is at its end; `read` has the client read. */
  async function isSentWhole(
    act: (answer: Answer) => void,
    stallMs: number,
    read?: (socket: Socket) => void,
  ): Promise<boolean> {
    const closed = Promise.withResolvers<boolean>();
    await using site = await open((_request, response) => {
      response.once("close", () => closed.resolve(response.writableFinished));
      act(new Answer(response, "id-1", undefined, { stallMs }));
    });
    read?.(site.socket);
    return await closed.promise;
  }
  /** Writes pieces for as long as the client takes them. */
  const pour = (answer: Answer): void => {
    let left = manyBytes.length;
    const next = (): void => {
      while (left > 0) {
        left -= 65_536;
        if (!answer.write(manyBytes.subarray(0, 65_536))) return answer.onDrain(next);
      }
      answer.end();
    };
    next();
  };
  const within = (answer: Answer): void => {
    answer.begin(200, stream);
    pour(answer);
  };
  const whole = (answer: Answer): void => {
    answer.begin(200, { "content-type": "application/json", "content-length": manyBytes.length });
    answer.end(manyBytes);
  };
  const acts: readonly (readonly [what: string, act: (answer: Answer) => void])[] = [
    ["within a stream", within],
    [
      "of a stream that has failed",
      (answer) => {
        answer.begin(200, stream);
        answer.write(manyBytes);
        answer.refuse(failure);
      },
    ],
    [
      "of bytes whose end is small",
      (answer) => {
        answer.begin(200, { "content-type": "audio/mpeg" });
        answer.write(manyBytes);
        setImmediate(() => answer.end(Buffer.from("x")));
      },
    ],
    ["of a whole answer", whole],
  ];
  for (const [what, act] of acts) it(`is cut, ${what}`, async () => assert.equal(await isSentWhole(act, 50), false));

  for (const act of [within, whole])
    it(`is not cut where its client is slow: ${act.name}`, async () => {
      // A pause is a tenth of the limit, all pauses together are longer than it.
      const [stallMs, pauseMs, stepBytes] = [2000, 200, manyBytes.length / 16];
      let [pauses, left] = [0, stepBytes];
      const readInSteps = (socket: Socket): void => {
        socket.on("data", ({ length }: Buffer) => {
          left -= length;
          if (left > 0) return;
          left = stepBytes;
          pauses += 1;
          socket.pause();
          setTimeout(() => socket.resume(), pauseMs);
        });
        socket.resume();
      };
      assert.equal(await isSentWhole(act, stallMs, readInSteps), true);
      assert.ok(pauses * pauseMs > stallMs, `${pauses} pauses`);
    });

  const head = (path: string): string => `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`;

  it("is cut where it stands behind another answer on its connection", async () => {
    const closed = Promise.withResolvers<boolean>();
    let before: Answer | undefined;
    await using _site = await open(
      (request, response) => {
        const answer = new Answer(response, "id-1", undefined, { stallMs: 50 });
        answer.begin(200, stream);
        if (request.url === "/first") {
          before = answer;
          return;
        }
        response.once("close", () => closed.resolve(response.writableFinished));
        answer.write(manyBytes);
        answer.end();
        setImmediate(() => before?.end(Buffer.from("data: x\n\n")));
      },
      head("/first") + head("/next"),
    );
    assert.equal(await closed.promise, false);
  });

  for (const isPipelined of [false, true])
    it(`leaves no limit behind for the next request, ${isPipelined ? "sent before" : "sent after"} its end`, async () => {
      const limits: (number | undefined)[] = [];
      const ended = Promise.withResolvers<void>();
      await using site = await open(
        ({ socket, url }, response) => {
          const answer = new Answer(response, "id-1", undefined, { stallMs: 60_000 });
          answer.begin(200, stream);
          if (url === "/next") {
            // A pipelined one has its connection once the answer before it is sent.
            const end = (): void => {
              limits.push(socket.timeout);
              answer.end(Buffer.from("data: last\n\n"));
            };
            if (response.socket === null) response.once("socket", () => setImmediate(end));
            else end();
            return;
          }
          answer.write(manyBytes);
          answer.end();
          setImmediate(() => void limits.push(socket.timeout));
        },
        isPipelined ? head("/first") + head("/next") : head("/first"),
      );
      let end = "";
      let isAsked = isPipelined;
      site.socket.on("data", (chunk) => {
        end = (end + chunk.toString("latin1")).slice(-1000);
        if (!isAsked && end.endsWith("\r\n0\r\n\r\n")) {
          isAsked = true;
          site.socket.write(head("/next"));
        }
        if (end.includes("data: last")) ended.resolve();
      });
      site.socket.resume();
      await ended.promise;
      assert.deepEqual(limits, [60_000, 0]);
    });
});
