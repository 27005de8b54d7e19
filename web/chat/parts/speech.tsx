import { Mic, Square, Volume2 } from "lucide";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { answerOf, request } from "../../shared/api.ts";
import { Icon } from "../../shared/icon.tsx";
import { useOnce } from "../../shared/once.ts";
import { models } from "../models.ts";
import { current, failure, shown } from "../store.ts";
import { wavOf } from "../wav.ts";
import { IconButton } from "./icon-button.tsx";

function modelThatCan(capability: string): string | undefined {
  return models.value.find(({ berth: { capabilities } }) => capabilities.includes(capability))?.id;
}

/** Writes down what a person says; absent where no slot transcribes, but for a microphone that is on. */
export function RecordButton({ onText }: { readonly onText: (text: string) => void }): JSX.Element | null {
  const model = modelThatCan("transcription");
  const recorder = useRef<MediaRecorder | undefined>(undefined);
  const [isRecording, setRecording] = useState(false);
  const [, once] = useOnce();
  // A microphone stays on in no other conversation; what was said until then is written down all the same.
  useEffect(() => () => end(recorder.current), [current.value.id]);
  if (model === undefined && !isRecording) return null;
  const begin = async (): Promise<void> => {
    const { id } = current.value;
    if (navigator.mediaDevices === undefined)
      throw new Error("The browser allows a microphone on HTTPS pages and on localhost alone.");
    let sound: MediaStream;
    try {
      sound = await navigator.mediaDevices.getUserMedia({ audio: true });
    } catch {
      throw new Error("The browser gave no microphone: allow it for this page, then press Record again.");
    }
    const silence = (): void => {
      for (const track of sound.getTracks()) track.stop();
    };
    // The browser's question may stand for long.
    if (current.value.id !== id) {
      silence();
      return;
    }
    const pieces: Blob[] = [];
    const next = new MediaRecorder(sound);
    next.addEventListener("dataavailable", ({ data }) => pieces.push(data));
    const ended = (): void => {
      silence();
      setRecording(false);
      void shown(() => transcribe(new Blob(pieces, { type: next.mimeType }), onText));
    };
    next.addEventListener("stop", ended, { once: true });
    next.start();
    recorder.current = next;
    setRecording(true);
  };
  const press = async (): Promise<void> => {
    if (isRecording || recorder.current?.state === "recording") end(recorder.current);
    // A second microphone could not be turned off.
    else await once(() => shown(begin));
  };
  return (
    <button
      type="button"
      class={isRecording ? "icon danger" : "ghost icon"}
      aria-label={isRecording ? "Stop recording" : "Record"}
      title={isRecording ? "Stop recording" : "Record"}
      aria-pressed={isRecording}
      onClick={() => void press()}
    >
      <Icon of={isRecording ? Square : Mic} />
    </button>
  );
}

/** A recorder that has ended refuses to be ended. */
function end(recorder: MediaRecorder | undefined): void {
  if (recorder?.state === "recording") recorder.stop();
}

async function transcribe(sound: Blob, onText: (text: string) => void): Promise<void> {
  const model = modelThatCan("transcription");
  if (model === undefined) throw new Error("No slot transcribes any more, so that nothing was written down.");
  const form = new FormData();
  form.set("model", model);
  form.set("file", await wavOf(sound), "speech.wav");
  const { text } = await answerOf<{ text: string }>("/v1/audio/transcriptions", {
    method: "POST",
    raw: { content: form },
  });
  if (text.trim() === "")
    failure.value = "No words were heard. Is the right microphone chosen in the browser? Record again.";
  else onText(text.trim());
}

/** The first voice that the slot lists; engines refuse names that they do not know. */
async function voiceOf(model: string): Promise<string> {
  const path = `/v1/audio/voices?model=${encodeURIComponent(model)}`;
  const { data } = await answerOf<{ readonly data: readonly { readonly id: string }[] }>(path, {
    // Over plain HTTP nothing else tells the request from a picture of another site.
    headers: { "content-type": "application/json" },
  });
  return data[0]?.id ?? "default";
}

/** Reads an answer aloud; absent where no slot speaks. */
export function SpeakButton({ text }: { readonly text: string }): JSX.Element | null {
  const model = modelThatCan("speech");
  const [reading, setReading] = useState<AbortController>();
  // Another conversation is read in silence.
  useEffect(() => () => reading?.abort(), [reading]);
  if (model === undefined) return null;
  const speak = async (): Promise<void> => {
    const next = new AbortController();
    setReading(next);
    try {
      await readAloud(model, text, next.signal);
    } finally {
      setReading((present) => (present === next ? undefined : present));
    }
  };
  return (
    <IconButton
      name={reading === undefined ? "Speak" : "Be quiet"}
      icon={reading === undefined ? Volume2 : Square}
      onClick={() => (reading === undefined ? void shown(speak) : setReading(undefined))}
    />
  );
}

/** Resolves at the end of the speech, or once it is aborted. */
async function readAloud(model: string, text: string, signal: AbortSignal): Promise<void> {
  let sound: Blob;
  try {
    const body = { model, input: text, voice: await voiceOf(model), response_format: "mp3" };
    sound = await (await request("/v1/audio/speech", { method: "POST", body, signal })).blob();
  } catch (error) {
    if (signal.aborted) return;
    throw error;
  }
  if (signal.aborted) return;
  const audio = new Audio(URL.createObjectURL(sound));
  const ended = new Promise<void>((resolve) => {
    audio.addEventListener("ended", () => resolve(), { once: true });
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
  try {
    await audio.play();
    await ended;
  } catch {
    throw new Error(`The browser cannot play what ${model} has said. Read its log on the page of that slot.`);
  } finally {
    audio.pause();
    URL.revokeObjectURL(audio.src);
  }
}
