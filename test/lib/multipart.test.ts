import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { boundaryOf, MultipartError, MultipartParser } from "../../src/lib/multipart.ts";
import { cutAt, formBody, type FormPart } from "../support/form.ts";
import { thrownBy } from "../support/rejection.ts";
import { fc } from "../support/fast-check.ts";

interface Read {
  readonly name: string;
  readonly filename: string | undefined;
  readonly contentType: string | undefined;
  value: string;
  isEnded: boolean;
}

function read(boundary: string, chunks: readonly Buffer[]): Read[] {
  const parts: Read[] = [];
  const last = (): Read => {
    const part = parts.at(-1);
    assert.ok(part !== undefined && !part.isEnded);
    return part;
  };
  const parser = new MultipartParser(boundary, {
    onPart: (part) => {
      assert.ok(parts.at(-1)?.isEnded ?? true);
      parts.push({ ...part, value: "", isEnded: false });
    },
    onData: (bytes) => {
      assert.ok(bytes.length > 0);
      last().value += bytes.toString("latin1");
    },
    onPartEnd: () => {
      last().isEnded = true;
    },
  });
  for (const chunk of chunks) parser.push(chunk);
  parser.end();
  return parts;
}

const boundary = "----b0undary";
const part = (name: string, value: string, filename?: string, contentType?: string): Read => ({
  name,
  filename,
  contentType,
  value,
  isEnded: true,
});

describe("MultipartParser", () => {
  it("reads fields and files", () => {
    const body = formBody(boundary, [
      { name: "model", value: "stt" },
      { name: "file", filename: "a b.wav", type: "audio/wav", value: "RIFF\r\n\r\n--x" },
      { name: "prompt", value: "" },
    ]);
    assert.deepEqual(read(boundary, [body]), [
      part("model", "stt"),
      part("file", "RIFF\r\n\r\n--x", "a b.wav", "audio/wav"),
      part("prompt", ""),
    ]);
  });

  it("ignores what stands before the first boundary and after the last", () => {
    const body = formBody(boundary, [{ name: "a", value: "1" }]);
    assert.deepEqual(read(boundary, [Buffer.from("hello\r\n"), body, Buffer.from("--bye\r\n\r\n")]), [part("a", "1")]);
  });

  it("reads headers in any case, tokens without quotes, escapes within", () => {
    const body = `--${boundary}  \r\nCONTENT-disposition:form-data; NAME=file; filename="a\\"b; name=\\"x.wav"\r\nX-Other: 1\r\n\r\nv\r\n--${boundary}--`;
    assert.deepEqual(read(boundary, [Buffer.from(body)]), [part("file", "v", 'a"b; name="x.wav')]);
  });

  it("prefers a file's name in its extended form, and reads the plain one where that is broken", () => {
    const named = (parameters: string): (string | undefined)[] => {
      const head = `--${boundary}\r\ncontent-disposition: form-data; name="file"; ${parameters}\r\n\r\nv\r\n--${boundary}--`;
      return read(boundary, [Buffer.from(head)]).map(({ filename }) => filename);
    };
    assert.deepEqual(named("filename*=utf-8''%D0%B7.ogg"), ["з.ogg"]);
    assert.deepEqual(named(`filename="?.ogg"; filename*=UTF-8'ru'%D0%B7.ogg`), ["з.ogg"]);
    assert.deepEqual(named(`filename="a.ogg"; filename*=utf-8''%D0.ogg`), ["a.ogg"]);
    assert.deepEqual(named(`filename="a.ogg"; filename*=latin-9''%A4.ogg`), ["a.ogg"]);
  });

  it("gives the same, however the bytes are split", () => {
    // Values full of what a boundary is made of.
    const value = fc
      .array(fc.constantFrom("\r", "\n", "-", "--", "b", "\r\n--", `\r\n--${boundary.slice(0, -1)}`, "x", "\u0000"), {
        maxLength: 20,
      })
      .map((pieces) => pieces.join(""));
    const name = fc.stringMatching(/^[a-z]{1,5}$/);
    const parts = fc.array(
      fc.record<FormPart, "name" | "value">({ name, filename: name, value }, { requiredKeys: ["name", "value"] }),
      { maxLength: 4 },
    );
    fc.assert(
      fc.property(parts, fc.array(fc.nat({ max: 2000 }), { maxLength: 30 }), (parts, cuts) => {
        const found = read(boundary, cutAt(formBody(boundary, parts), cuts));
        assert.deepEqual(
          found,
          parts.map(({ name, filename, value }) => part(name, String(value), filename)),
        );
      }),
    );
  });

  const disposition = 'Content-Disposition: form-data; name="a"';
  const whole = (head: string, end = ""): string => `--${boundary}${end}\r\n${head}\r\n\r\nv\r\n--${boundary}${end}--`;
  const begun = `--${boundary}\r\n${disposition}\r\n\r\n`;
  const malformed: Readonly<Record<string, readonly [body: string, message: RegExp]>> = {
    nothing: ["", /ends before/],
    "no boundary": ["hello", /ends before/],
    "a part without its end": [`${begun}value`, /ends before/],
    "an end that is cut": [`${begun}value\r\n--${boundary}-`, /ends before/],
    "a header without its end": [`--${boundary}\r\nContent-Disp`, /ends before/],
    "something behind a boundary": [whole(disposition, "garbage"), /followed by something/],
    "a longer boundary": [whole(disposition, "2"), /followed by something/],
    "no header": [`--${boundary}\r\n\r\nv\r\n--${boundary}--`, /no header/],
    "a header that is none": [whole("hello"), /malformed header/],
    "no disposition": [whole("Content-Type: text/plain"), /no content-disposition/],
    "another disposition": [whole('Content-Disposition: attachment; name="a"'), /no content-disposition/],
    "no name": [whole('Content-Disposition: form-data; filename="a"'), /with a name/],
    "an endless header": [`--${boundary}\r\nX: ${"x".repeat(20_000)}`, /too large/],
    "too many parts": [`${begun}v\r\n`.repeat(101), /more than 100/],
  };
  it("refuses what is no form, in one piece and byte by byte", () => {
    for (const [what, [body, message]] of Object.entries(malformed))
      for (const chunks of [[Buffer.from(body)], Array.from(body, (byte) => Buffer.from(byte))])
        assert.match(thrownBy(() => read(boundary, chunks), MultipartError).message, message, what);
  });

  it("throws nothing else, for any bytes", () => {
    const piece = fc.oneof(
      fc.uint8Array({ maxLength: 30 }).map((bytes) => Buffer.from(bytes)),
      fc
        .constantFrom(
          `--${boundary}`,
          "\r\n",
          "--",
          `${disposition}\r\n\r\n`,
          "Content-Disposition: form-data",
          ";name=",
          '"',
          ":",
        )
        .map((text) => Buffer.from(text)),
    );
    fc.assert(
      fc.property(fc.array(piece), (chunks) => {
        try {
          read(boundary, chunks);
        } catch (error) {
          assert.ok(error instanceof MultipartError);
        }
      }),
    );
  });
});

describe("boundaryOf", () => {
  const cases: readonly (readonly [type: string, boundary: string | undefined])[] = [
    ["multipart/form-data; boundary=abc", "abc"],
    ['Multipart/Form-Data; charset=utf-8; Boundary="a b"', "a b"],
    ["multipart/form-data;boundary=----WebKitFormBoundary7MA4YWxk; x=y", "----WebKitFormBoundary7MA4YWxk"],
    ["multipart/form-data", undefined],
    ["multipart/form-data; boundary=", undefined],
    ['multipart/form-data; boundary=""', undefined],
    [`multipart/form-data; boundary=${"x".repeat(70)}`, "x".repeat(70)],
    [`multipart/form-data; boundary=${"x".repeat(71)}`, undefined],
    ['multipart/form-data; boundary="a "', undefined],
    ["multipart/form-data; boundary=é", undefined],
    ["multipart/form-datax; boundary=abc", undefined],
    ["multipart/mixed; boundary=abc", undefined],
    ["application/json", undefined],
  ];
  it("finds the boundary of a form alone", () => {
    for (const [type, expected] of cases) assert.equal(boundaryOf(type), expected, type);
  });
});
