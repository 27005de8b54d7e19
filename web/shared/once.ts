import { useRef, useState } from "preact/hooks";

/** Whether an act is going on, and what starts one: never a second one beside it, as by a double click. */
export function useOnce(): readonly [boolean, (act: () => Promise<void>) => Promise<void>] {
  const [isBusy, setBusy] = useState(false);
  // The state alone reaches the button with the next drawing, which two clicks may precede.
  const isActing = useRef(false);
  const once = async (act: () => Promise<void>): Promise<void> => {
    if (isActing.current) return;
    isActing.current = true;
    setBusy(true);
    try {
      await act();
    } finally {
      isActing.current = false;
      setBusy(false);
    }
  };
  return [isBusy, once];
}
