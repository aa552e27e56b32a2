// libOpenflow as a subject: DIR VERSION KIND DEED COUNT; prints nanoseconds each. 1.3 and 1.5.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"antrea.io/libOpenflow/openflow13"
	"antrea.io/libOpenflow/openflow15"
	"antrea.io/libOpenflow/util"
)

var kept util.Message

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	from, version, kind, deed := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	count, err := strconv.Atoi(os.Args[5])
	check(err)
	bytes, err := os.ReadFile(filepath.Join(from, version+"_"+kind+".bin"))
	check(err)
	parse := map[string]func([]byte) (util.Message, error){"1.3": openflow13.Parse, "1.5": openflow15.Parse}[version]
	if parse == nil || (deed != "read" && deed != "write") {
		os.Exit(2)
	}
	message, err := parse(bytes)
	check(err)
	again, err := message.MarshalBinary()
	check(err)
	if !bytes.Equal(again, bytes) {
		fmt.Fprintf(os.Stderr, "%d bytes were written where %d were read, or others\n", len(again), len(bytes))
		if deed == "write" {
			os.Exit(1)
		}
	}
	start := time.Now()
	for n := 0; n < count; n++ {
		if deed == "read" {
			kept, err = parse(bytes)
		} else {
			again, err = message.MarshalBinary()
		}
		check(err)
	}
	fmt.Printf("%.2f\n", float64(time.Since(start).Nanoseconds())/float64(count))
}
