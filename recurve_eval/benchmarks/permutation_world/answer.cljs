(ns answer
  "Loads the saved source into this fresh context, makes the calls of calls.json and writes answers.json."
  (:require ["fs" :as fs]
            [nbb.core :as nbb]))

(defn given [value]
  (cond
    (and (object? value) (.-map value)) (into {} (map vec) (array-seq (.-map value)))
    (array? value) (vec value)
    :else value))

(defn told [value]
  (cond
    (map? value) #js {:map (into-array (map (fn [[k v]] #js [k v]) value))}
    (sequential? value) #js {:list (into-array value)}
    :else value))

(defn answer [call]
  (try
    (let [function (resolve (symbol "permutation" (aget call 0)))
          arguments (map given (aget call 1))]
      #js ["gives" (told (apply function arguments))])
    (catch :default error
      #js ["raises" (if (ex-data error) "ValueError" "Error")])))

(-> (nbb/load-file "permutation.cljs")
    (.then (fn [_]
             (let [calls (js/JSON.parse (fs/readFileSync "calls.json" "utf8"))]
               (fs/writeFileSync "answers.json" (js/JSON.stringify (.map calls #(answer %)))))))
    (.catch (fn [error]
              (js/console.error (str error))
              (js/process.exit 1))))
